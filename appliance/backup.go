package appliance

import (
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// backupFormat is the number of the file's format. A higher one is refused.
const backupFormat = 1

// The entries of a backup: the manifest first, which has the digest of every file, then its own digest, then the files.
const (
	backupManifest = "manifest.json"
	backupDigest   = "manifest.sha256"
	backupFiles    = "files/"
)

// backup is the manifest of a backup.
type backup struct {
	Format   int             `json:"format"`
	Name     string          `json:"name"` // of the box
	Version  string          `json:"version"`
	Created  time.Time       `json:"created"`
	Models   []backupModel   `json:"models"`
	Settings *admin.Settings `json:"settings,omitempty"`
	// Buckets are documents by bucket and key: notes, drafts and, where they were asked for, users and keys.
	Buckets map[string]map[string][]byte `json:"buckets"`
	// Deployments is the history, oldest first.
	Deployments []admin.Deployment `json:"deployments"`

	folder string // where its files were unpacked
}

// backupModel is what a backup holds of a model.
type backupModel struct {
	Name     string              `json:"name"`
	Wanted   bool                `json:"wanted"`
	Labels   []edgewise.Label    `json:"labels"`
	Versions []*edgewise.Version `json:"versions"`
}
