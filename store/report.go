package store

import (
	"fmt"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// Report says what Check, Verify or Repair found. It is made to be printed or encoded as JSON.
type Report struct {
	Versions int       `json:"versions"`         // looked at
	Files    int       `json:"files"`            // of those versions
	Bytes    int64     `json:"bytes"`            // of those files
	Hashed   bool      `json:"hashed"`           // whether the files were read and their SHA-256 compared
	Source   string    `json:"source,omitempty"` // Repair: what labels and wishes were taken from
	Findings []Finding `json:"findings"`         // empty: all is well
}

// Finding is one thing that is not as it should be.
type Finding struct {
	Model   edgewise.ModelID `json:"model"`            // empty when it is about no model
	Path    string           `json:"path,omitempty"`   // inside the data folder
	Problem string           `json:"problem"`          // what is wrong
	Action  string           `json:"action,omitempty"` // Repair: what was done about it
}

// OK tells whether nothing was found.
func (r *Report) OK() bool { return len(r.Findings) == 0 }

// String returns the report as lines of text for people.
func (r *Report) String() string {
	var b strings.Builder
	how := "present and of the right size"
	if r.Hashed {
		how = "read and compared with their SHA-256"
	}
	fmt.Fprintf(&b, "%d versions, %d files, %d bytes: %s\n", r.Versions, r.Files, r.Bytes, how)
	if r.Source != "" {
		fmt.Fprintf(&b, "labels and wishes from: %s\n", r.Source)
	}
	for _, f := range r.Findings {
		b.WriteString(f.String())
		b.WriteByte('\n')
	}
	if r.OK() {
		b.WriteString("no problems\n")
	}
	return b.String()
}

// String returns the finding as one line.
func (f Finding) String() string {
	var b strings.Builder
	if f.Model.Name != "" {
		fmt.Fprintf(&b, "model %s: ", f.Model)
	}
	if f.Path != "" {
		fmt.Fprintf(&b, "%s: ", f.Path)
	}
	b.WriteString(f.Problem)
	if f.Action != "" {
		fmt.Fprintf(&b, " -> %s", f.Action)
	}
	return b.String()
}

func (r *Report) count(v *edgewise.Version) {
	r.Versions, r.Files, r.Bytes = r.Versions+1, r.Files+len(v.Files), r.Bytes+v.Size
}

func (r *Report) find(id edgewise.ModelID, path, action, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{Model: id, Path: path, Problem: fmt.Sprintf(format, args...), Action: action})
}
