package edgewise

// Batching says whether requests of a version are merged into one batch, and why.
type Batching struct {
	Merged      bool   `json:"merged"`      // several requests may run together
	Independent bool   `json:"independent"` // a row's outputs follow from that row alone: declared, or found by a trial
	Reason      string `json:"reason"`      // a sentence for people, without a full stop
}

// Padder is an Instance that can run a batch with more rows than it was given, which it makes up and takes out again.
type Padder interface {
	// AllowPadding says that the rows of a batch do not depend on each other. Before it was called no row is added. It is
	// safe for concurrent use, and cheap when it is called again.
	AllowPadding()
}
