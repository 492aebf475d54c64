package admin

import "time"

// SystemUpdate is the kind of system updates and the state of the present one: GET /api/v1/system/update.
type SystemUpdate struct {
	Kind       string        `json:"kind"`              // image, package, container or folder
	Takes      string        `json:"takes"`             // the file that it is updated with, or what is done instead
	Possible   bool          `json:"possible"`          // whether an update can be uploaded
	Problem    string        `json:"problem,omitempty"` // why it cannot
	Version    string        `json:"version"`           // of the system that runs
	Compatible string        `json:"compatible,omitempty"`
	Booted     string        `json:"booted,omitempty"` // slot that runs
	Next       string        `json:"next,omitempty"`   // slot that the next start takes
	Slots      []SystemSlot  `json:"slots"`
	Previous   string        `json:"previous,omitempty"` // version that a rollback goes back to
	Restart    bool          `json:"restart"`            // a restart brings another version
	Job        *UpdateJob    `json:"job,omitempty"`
	Last       *UpdateResult `json:"last,omitempty"`
}

// SystemSlot is one of the two places of a system.
type SystemSlot struct {
	Name      string `json:"name"`
	State     string `json:"state"` // booted or inactive
	Good      bool   `json:"good"`  // it has passed its check, or was not tried yet
	Version   string `json:"version,omitempty"`
	Installed string `json:"installed,omitempty"`
}

// The states of an UpdateJob.
const (
	UpdateReceiving  = "receiving"
	UpdateChecking   = "checking"
	UpdateWaiting    = "waiting" // for a confirmation
	UpdateInstalling = "installing"
	UpdateReady      = "ready" // for a restart
	UpdateFailed     = "failed"
	UpdateCanceled   = "canceled"
)

// UpdateJob is the update that was uploaded last.
type UpdateJob struct {
	State    string    `json:"state"`
	Version  string    `json:"version,omitempty"`
	Size     int64     `json:"size"` // announced; -1: it was not
	Received int64     `json:"received"`
	Percent  int       `json:"percent"` // of the installation
	Doing    string    `json:"doing,omitempty"`
	Confirm  string    `json:"confirm,omitempty"` // what is to be confirmed
	Error    string    `json:"error,omitempty"`
	Owner    string    `json:"owner"`
	Started  time.Time `json:"started"`
	Ended    time.Time `json:"ended,omitzero"`
}

// UpdateResult is how the last update or rollback went, also one before the last start.
type UpdateResult struct {
	Action  string    `json:"action"` // update or rollback
	Version string    `json:"version"`
	From    string    `json:"from,omitempty"`
	Time    time.Time `json:"time"`
	Error   string    `json:"error,omitempty"` // empty: it went well
}

// UpdateInstall is the body of POST /api/v1/system/update/install.
type UpdateInstall struct {
	Confirmed bool `json:"confirmed"` // take what the job asks to be confirmed
}

// FactoryReset is the body of POST /api/v1/system/factory-reset. Confirm is the word ResetWord.
type FactoryReset struct {
	Confirm string `json:"confirm"`
}

// ResetWord is what has to be written to erase a box.
const ResetWord = "erase"

// FailedBoot is a failed start of the system, and the system that runs instead.
type FailedBoot struct {
	Version  string    `json:"version"`
	Slot     string    `json:"slot,omitempty"`
	Runs     string    `json:"runs,omitempty"` // the slot that runs instead
	Time     time.Time `json:"time"`           // when it was found out
	Text     string    `json:"text"`
	LogBytes int       `json:"log_bytes"` // of GET /api/v1/system/failed-boot/log
}

// SafeStart is a start without loading models, and its reason.
type SafeStart struct {
	Since   time.Time `json:"since"`
	Crashes int       `json:"crashes"` // starts in a row that did not end well
	Models  []string  `json:"models"`  // that were being loaded when the last one ended, as name:version
	Text    string    `json:"text"`
}
