package helper

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/update/driver"
)

// Socket is where the helper listens.
const Socket = "/run/edgewise-helper.sock"

// maxAnswer bounds a line of an answer: JSON writes a byte of a log in six at most, and there is little beside that.
const maxAnswer = 6*MaxLog + 64<<10

// Client asks the helper at a socket. The zero value asks the one of this machine.
type Client struct {
	Path string
}

func (c Client) path() string {
	if c.Path == "" {
		return Socket
	}
	return c.Path
}

// Present tells whether there is a helper.
func (c Client) Present() bool {
	info, err := os.Stat(c.path())
	return err == nil && info.Mode()&os.ModeSocket != 0
}

// Ask asks for one thing and waits for its end, or that of ctx; what was begun goes on. file, which may be nil, is
// handed over and stays the caller's. doing, which may be nil, is told how far it is. Errors: Unavailable without a
// helper, and the helper's own.
func (c Client) Ask(ctx context.Context, r Request, file *os.File, doing func(string)) (Answer, error) {
	const op = "helper.Ask"
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", c.path())
	if err != nil {
		return Answer{}, edgewise.Errorf(op, edgewise.Unavailable, "the helper of this box does not answer: %w", err)
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	text, err := json.Marshal(r)
	if err != nil {
		return Answer{}, edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	var rights []byte
	if file != nil {
		rights = unix.UnixRights(int(file.Fd()))
	}
	_, _, err = conn.(*net.UnixConn).WriteMsgUnix(append(text, '\n'), rights, nil)
	if err != nil && !errors.Is(err, unix.EPIPE) { // who is refused is told so before having asked
		return Answer{}, c.broken(ctx, err)
	}
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		var a Answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			return Answer{}, edgewise.Errorf(op, edgewise.Internal, "the helper's answer cannot be read: %w", err)
		}
		switch {
		case !a.End && doing != nil:
			doing(a.Doing)
		case a.End && a.Error != "":
			return a, edgewise.Errorf(op, a.kindOf(), "%s", a.Error)
		case a.End:
			return a, nil
		}
	}
	return Answer{}, c.broken(ctx, lines.Err())
}

func (c Client) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return edgewise.Errorf("helper.Ask", edgewise.KindOf(ctx.Err()), "no longer waiting for the helper: %w", ctx.Err())
	}
	if err == nil {
		return edgewise.Errorf("helper.Ask", edgewise.Unavailable, "the helper ended without an answer")
	}
	return edgewise.Errorf("helper.Ask", edgewise.Unavailable, "asking the helper: %w", err)
}

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

	DoDrivers        = "drivers"         // what driver extensions are installed and mounted
	DoDriverInstall  = "driver-install"  // install the extension that comes with the request
	DoDriverRemove   = "driver-remove"   // remove all versions of a driver
	DoDriverRollback = "driver-rollback" // prefer the other version of a driver
)

// Bounds of what crosses the socket, and of packages.
const (
	MaxRequest = 64 << 10 // bytes of a request
	MaxPackage = 1 << 30  // bytes of a package
	MaxLog     = 256 << 10
)

// Request is one thing that is asked. A file may come with it, as a descriptor.
type Request struct {
	Do        string `json:"do"`
	Signature string `json:"signature,omitempty"` // of the file, as minisign writes it
	Since     string `json:"since,omitempty"`     // the start behind which the log begins
	Name      string `json:"name,omitempty"`      // of a driver
	Next      string `json:"next,omitempty"`      // version of the slot that the next start takes, where that is another
}

// Answer is a line of the answer. The last one has End.
type Answer struct {
	Doing string `json:"doing,omitempty"`
	End   bool   `json:"end,omitempty"`
	Kind  string `json:"kind,omitempty"`  // the edgewise.Kind of the error
	Error string `json:"error,omitempty"` // empty: it is done
	State *State `json:"state,omitempty"`
	Log   string `json:"log,omitempty"`

	Drivers *Drivers `json:"drivers,omitempty"`
}

// Drivers is what the helper knows of driver extensions.
type Drivers struct {
	Entries []driver.Entry   `json:"entries,omitempty"` // installed, the preferred one of a driver first
	Mounted []driver.Mounted `json:"mounted,omitempty"` // at this start
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
