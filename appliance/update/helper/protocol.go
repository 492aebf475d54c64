package helper

import (
	"github.com/edgewise-ai/edgewise"
)

// What the helper can be asked.
const (
	DoState    = "state"    // what there is to install and to go back to
	DoStage    = "stage"    // take the package that comes with the request, if its signature is good
	DoDiscard  = "discard"  // throw the staged package away
	DoApply    = "apply"    // install the staged package; the appliance is restarted by that
	DoRollback = "rollback" // install the package that ran before
	DoRestart  = "restart"  // restart: the machine of an image, otherwise the appliance
	DoReset    = "reset"    // erase models, accounts and settings, and restart
	DoOlder    = "older"    // let the next bundle be older than what runs, for a few minutes
	DoNoOlder  = "no-older" // end that
	DoFailures = "failures" // the log of the starts behind a given one that were not this one
)

// Bounds of what crosses the socket, and of packages.
const (
	MaxRequest   = 64 << 10 // bytes of a request
	MaxSignature = 4 << 10  // bytes of a signature
	MaxPackage   = 1 << 30  // bytes of a package
	MaxLog       = 256 << 10
)

// Request is one thing that is asked. A file may come with it, as a descriptor.
type Request struct {
	Do        string `json:"do"`
	Signature string `json:"signature,omitempty"` // of the file, as minisign writes it
	Since     string `json:"since,omitempty"`     // the start behind which the log begins
}

// Answer is a line of the answer. The last one has End.
type Answer struct {
	Doing string `json:"doing,omitempty"`
	End   bool   `json:"end,omitempty"`
	Kind  string `json:"kind,omitempty"`  // the edgewise.Kind of the error
	Error string `json:"error,omitempty"` // empty: it is done
	State *State `json:"state,omitempty"`
	Log   string `json:"log,omitempty"`
}

// State is what the helper knows of packages.
type State struct {
	Installed string  `json:"installed,omitempty"` // version
	Staged    *Staged `json:"staged,omitempty"`
	Previous  string  `json:"previous,omitempty"` // version that a rollback goes back to
	Last      *Result `json:"last,omitempty"`
}

// Staged is a package with a good signature that waits to be installed.
type Staged struct {
	Version string `json:"version"`
	Older   bool   `json:"older,omitempty"` // than the one that is installed
}

// Result is how the last installation went.
type Result struct {
	Action  string `json:"action"` // apply or rollback
	Version string `json:"version"`
	From    string `json:"from"`
	Time    string `json:"time"`            // RFC 3339
	Error   string `json:"error,omitempty"` // empty: it went well
	Log     string `json:"log,omitempty"`   // of the appliance, where it did not start
}

// kindOf reads the kind of an answer.
func (a Answer) kindOf() edgewise.Kind {
	for _, k := range edgewise.Kinds() {
		if k.String() == a.Kind {
			return k
		}
	}
	return edgewise.Internal
}
