package admin

import "time"

// States of a fleet's document on a box.
const (
	FleetOff       = "off"       // no source is configured
	FleetNone      = "none"      // there is a source, and nothing of it was accepted yet
	FleetWaiting   = "waiting"   // the document is not to be followed yet
	FleetExpired   = "expired"   // nothing more of the document is begun
	FleetConverged = "converged" // the box is what the document says
	FleetMoving    = "moving"    // it is on the way there
	FleetHeld      = "held"      // it is as far as it comes by itself: what is left was taken back or failed, or waits for others
)

// States of a wish of a fleet's document on a box.
const (
	WishDone      = "done"       // the label points to the version
	WishNext      = "next"       // the box does it now
	WishRolling   = "rolling"    // a rollout brings the version live
	WishWaiting   = "waiting"    // its stage is not open yet
	WishFailed    = "failed"     // it is tried again
	WishTakenBack = "taken_back" // the version is no good here, and is not tried again for this serial
	WishChanged   = "changed"    // it was done, and somebody has moved the label on the box since
)

// Actions that a wish may need next.
const (
	FleetImport   = "import"   // fetch the version and store it
	FleetLabel    = "label"    // load it, have it answer the goldens, and move the label
	FleetRollout  = "rollout"  // bring it live by stages
	FleetSettings = "settings" // change settings of the box
)

// Fleet is what a box was told by the document of its fleet, what it did, and what failed: GET /api/v1/fleet.
type Fleet struct {
	Source string            `json:"source"` // empty: the box follows no document
	Box    string            `json:"box"`    // the name of the box in the fleet
	Labels map[string]string `json:"labels"`
	State  string            `json:"state"`
	// Fleet, Serial and Digest are those of the document that the box follows; 0 and empty: none.
	Fleet    string    `json:"fleet,omitempty"`
	Serial   int64     `json:"serial,omitempty"`
	Digest   string    `json:"digest,omitempty"` // of its bytes, as sha256:HEX
	SignedBy string    `json:"signed_by,omitempty"`
	Accepted time.Time `json:"accepted,omitzero"`
	Groups   []string  `json:"groups"` // of the document, that the box is in
	Wishes   []Wish    `json:"wishes"`
	// Asked is when the source was asked last, Problem why that brought nothing to follow, Warning what a person should see to.
	Asked   time.Time `json:"asked,omitzero"`
	Problem string    `json:"problem,omitempty"`
	Warning string    `json:"warning,omitempty"`
	// Reported is when the report was sent last, ReportProblem why the present one was not.
	Reported      time.Time `json:"reported,omitzero"`
	ReportProblem string    `json:"report_problem,omitempty"`
}

// Wish is one thing that a document wants of a box.
type Wish struct {
	Model     string `json:"model,omitempty"` // empty: settings
	Label     string `json:"label,omitempty"`
	Reference string `json:"reference,omitempty"`
	Version   int64  `json:"version,omitempty"` // of the model on this box; 0: it is not there
	State     string `json:"state"`
	Next      string `json:"next,omitempty"` // the action that comes next, of WishNext and WishFailed
	Reason    string `json:"reason,omitempty"`
}

// FleetReport is what a box tells its fleet.
type FleetReport struct {
	Format  int       `json:"format"` // 1
	Box     string    `json:"box"`
	Version string    `json:"version"` // of the program
	Time    time.Time `json:"time"`
	Fleet   string    `json:"fleet"`
	Serial  int64     `json:"serial"`
	Digest  string    `json:"digest"`
	State   string    `json:"state"`
	Problem string    `json:"problem,omitempty"`
	Wishes  []Wish    `json:"wishes"`
}

// FleetQuestion asks what a document would change: POST /api/v1/fleet/diff. Its signature and serial do not matter.
type FleetQuestion struct {
	Document string `json:"document"`
}

// FleetDifference answers that.
type FleetDifference struct {
	Fleet  string   `json:"fleet"`
	Serial int64    `json:"serial"`
	Groups []string `json:"groups"`
	Wishes []Wish   `json:"wishes"`
}
