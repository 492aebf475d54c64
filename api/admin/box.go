package admin

import (
	"time"

	"github.com/edgewise-ai/edgewise"
)

// System describes the appliance and its state: GET /api/v1/system.
type System struct {
	Name        string      `json:"name"`
	Version     string      `json:"version"`
	Go          string      `json:"go"`
	Platform    string      `json:"platform"`
	Hostname    string      `json:"hostname"`
	Started     time.Time   `json:"started"`
	Time        time.Time   `json:"time"`
	Auth        string      `json:"auth"`
	Ready       bool        `json:"ready"`
	Addresses   []string    `json:"addresses"` // where the page can be opened
	GRPCAddress string      `json:"grpc_address,omitempty"`
	Disk        Disk        `json:"disk"`
	Memory      Memory      `json:"memory"`
	CPU         CPU         `json:"cpu"`
	Components  []Component `json:"components"`
	Warnings    []Warning   `json:"warnings"`

	Update     *SystemUpdate `json:"update,omitempty"`
	FailedBoot *FailedBoot   `json:"failed_boot,omitempty"` // until somebody acknowledges it
	SafeStart  *SafeStart    `json:"safe_start,omitempty"`  // while no models are loaded by themselves
}

// Disk is the space of the data folder, in bytes.
type Disk struct {
	Total   int64 `json:"total"` // size of the disk
	Used    int64 `json:"used"`  // by models
	Free    int64 `json:"free"`
	Reserve int64 `json:"reserve"` // that uploads leave free
}

// Memory is that of the machine, in bytes. Box is what this process has resident.
type Memory struct {
	Total     int64 `json:"total"`
	Available int64 `json:"available"`
	Box       int64 `json:"box"`
}

// CPU is what the cores do: Load is 0 to 1, of all of them together.
type CPU struct {
	Cores int     `json:"cores"`
	Load  float64 `json:"load"`
}

// Component is a part of the software and its version.
type Component struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Warning is something that a person should do something about.
type Warning struct {
	Code     string `json:"code"`
	Severity string `json:"severity"` // info, warning or error
	Text     string `json:"text"`
	Next     string `json:"next"` // what to do
	Model    string `json:"model,omitempty"`
}

// Backend is a backend of another program, or a folder in which one cannot be used.
type Backend struct {
	Name      string         `json:"name"` // as configurations of models name it
	Folder    string         `json:"folder"`
	Address   string         `json:"address,omitempty"` // of a server; empty: it is a program
	Platforms []string       `json:"platforms"`
	File      string         `json:"file,omitempty"` // default name of a model's file
	Usable    bool           `json:"usable"`
	Problem   string         `json:"problem,omitempty"` // why it cannot be used
	Limits    *BackendLimits `json:"limits,omitempty"`
}

// BackendLimits are what a process of a backend may take.
type BackendLimits struct {
	Memory      int64   `json:"memory"`  // bytes
	Scratch     int64   `json:"scratch"` // bytes of files that it writes; 0: none
	Threads     int     `json:"threads"` // cores of one execution
	Network     bool    `json:"network"`
	Processes   bool    `json:"processes"` // it may start processes
	LoadSeconds float64 `json:"load_seconds"`
}

// Device is a device that models run on. Values that it does not report are absent.
type Device struct {
	Name        string             `json:"name"`
	Kind        string             `json:"kind"`
	Description string             `json:"description"`
	Cores       int                `json:"cores,omitempty"`
	Load        *float64           `json:"load,omitempty"`
	MemoryTotal int64              `json:"memory_total"`
	MemoryUsed  *int64             `json:"memory_used,omitempty"`
	Models      []edgewise.ModelID `json:"models"`

	Used         bool                `json:"used"`                         // whether models can run on it
	Reason       string              `json:"reason,omitempty"`             // the one reason why not
	Capability   string              `json:"compute_capability,omitempty"` // of a GPU of CUDA
	Vendor       string              `json:"vendor,omitempty"`             // of a Vulkan device
	Type         string              `json:"type,omitempty"`               // integrated, discrete, virtual, software or other
	Driver       string              `json:"driver,omitempty"`             // what drives it, with its version
	MemoryBudget int64               `json:"memory_budget,omitempty"`      // of a GPU: bytes that models may take together
	Losses       int                 `json:"losses,omitempty"`             // how often a process of a model on it has died
	LastLoss     time.Time           `json:"last_loss,omitzero"`           // when that was
	Loss         string              `json:"loss,omitempty"`               // its cause
	Telemetry    *edgewise.Telemetry `json:"telemetry,omitempty"`          // of a GPU
}

// Settings are the settings that can be changed at run time.
type Settings struct {
	Name          string `json:"name"`
	SessionIdle   int64  `json:"session_idle_seconds"`
	Session       int64  `json:"session_seconds"`
	MetricsPublic bool   `json:"metrics_public"`
	KeepVersions  int    `json:"keep_versions"` // of each model; 0: all
}

// SettingsChange is the body of PATCH /api/v1/settings. Members that are nil do not change.
type SettingsChange struct {
	Name          *string `json:"name"`
	SessionIdle   *int64  `json:"session_idle_seconds"`
	Session       *int64  `json:"session_seconds"`
	MetricsPublic *bool   `json:"metrics_public"`
	KeepVersions  *int    `json:"keep_versions"`
}

// ConfigurationKey is a key of the configuration and its value in force.
type ConfigurationKey struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Default string `json:"default"`
	Unit    string `json:"unit"`
	Doc     string `json:"doc"`
}

// TLS describes the certificate in use: GET /api/v1/tls.
type TLS struct {
	Mode                 string    `json:"mode"` // off, self_signed or uploaded
	Fingerprint          string    `json:"fingerprint,omitempty"`
	AuthorityFingerprint string    `json:"authority_fingerprint,omitempty"`
	Subject              string    `json:"subject,omitempty"`
	Issuer               string    `json:"issuer,omitempty"`
	Names                []string  `json:"names,omitempty"`
	NotBefore            time.Time `json:"not_before,omitzero"`
	NotAfter             time.Time `json:"not_after,omitzero"`
}

// TLSUpload is the body of PUT /api/v1/tls: both are PEM.
type TLSUpload struct {
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
}

// Why a label moved.
const (
	CauseUpload   = "upload"
	CauseLabel    = "label" // a client moved it
	CauseRollback = "rollback"
	CauseRemove   = "remove"
	CauseLoad     = "load"
	CauseImport   = "import"
	CausePublish  = "publish" // a draft was published
	CauseStep     = "step"    // a step was compiled in the page
	CauseRestore  = "restore"
	CauseRollout  = "rollout" // a rollout promoted a version
)

// Deployment is a move of a label, also one that failed.
type Deployment struct {
	Number       uint64    `json:"number"`
	Time         time.Time `json:"time"`
	Model        string    `json:"model"`
	Label        string    `json:"label"`
	From         int64     `json:"from"` // 0: none
	To           int64     `json:"to"`   // 0: none
	Actor        string    `json:"actor"`
	Cause        string    `json:"cause"` // one of the Cause constants
	Done         bool      `json:"done"`  // false: it failed and nothing changed
	Error        string    `json:"error,omitempty"`
	Milliseconds int64     `json:"milliseconds"`

	SignatureChanges []Difference `json:"signature_changes,omitempty"` // breaking ones first, at most 32
}

// ModelEvent is a change of a model.
type ModelEvent struct {
	Model   string `json:"model"`
	Version int64  `json:"version,omitempty"`
	What    string `json:"what"` // state, health, label, stored, deleted, notes, goldens, rollout or tuning
	State   string `json:"state,omitempty"`
	Reason  string `json:"reason,omitempty"`
}
