package edgewise

// Batching says whether requests of a version are merged into one batch, and why.
type Batching struct {
	Merged      bool   `json:"merged"`      // several requests may run together
	Independent bool   `json:"independent"` // a row's outputs follow from that row alone: declared, or found by a trial
	Reason      string `json:"reason"`      // a sentence for people, without a full stop
}
