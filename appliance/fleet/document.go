// Package fleet makes a box follow the document of its fleet: a signed file in a registry, an object store, on a web server or
// on a stick, which says which versions of models the labels point to. The box asks for it, believes it by its signature and
// its serial, brings itself there one step at a time, and reports. There is no server that knows the boxes.
package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/document"
	"github.com/edgewise-ai/edgewise/pattern"
)

// The files of a document in its source.
const (
	File          = "fleet.json"
	SignatureFile = File + ".minisig"
)

// Bounds of a document.
const (
	MaxDocument  = document.MaxBytes
	MaxSignature = 4 << 10 // bytes
	maxModels    = 256     // entries
	maxGroups    = 64
	maxStages    = 8    // of an entry
	maxBoxes     = 1000 // named by a group
	maxLabels    = 16   // of a group
	maxDone      = 100  // boxes that a stage waits for
	maxGroupName = 64   // bytes
	maxSerial    = 1 << 53
)

// Document is what boxes of a fleet are to be.
type Document struct {
	Format    int              `json:"format"` // 1
	Fleet     string           `json:"fleet"`  // its name
	Serial    int64            `json:"serial"` // grows with each document
	NotBefore time.Time        `json:"not_before"`
	Expires   time.Time        `json:"expires"`
	Groups    map[string]Group `json:"groups"`
	Models    []Entry          `json:"models"`
	Settings  *Settings        `json:"settings"`
	Report    *Report          `json:"report"`
}

// Group is some of the boxes: those that it names, and Percent of those that have all its labels. Which these are depends on the
// names of the boxes and the fleet alone.
type Group struct {
	Boxes   []string          `json:"boxes"`
	Labels  map[string]string `json:"labels"`
	Percent *float64          `json:"percent"` // absent: 100 where there are labels, otherwise 0
}

// Entry says which version a label of a model points to.
type Entry struct {
	Model     string  `json:"model"`
	Label     string  `json:"label"`     // absent: live
	Reference string  `json:"reference"` // oci://registry/name@sha256:..., never a tag
	Stages    []Stage `json:"stages"`    // none: every box, at once
	// Rollout is the plan by which the version goes live on each box that has a live one; absent: that of the version or of its
	// model, or else at once.
	Rollout *admin.RolloutPlan `json:"rollout"`
}

// Stage is a group that gets a version once boxes of the stage before report that it works, and none that it does not.
type Stage struct {
	Group string `json:"group"`
	Done  *int   `json:"done"` // boxes of the stage before that report it done; absent: 1. The first stage has none.
}

// Settings are the settings of a box that a fleet may have in common. What is absent stays as it is.
type Settings struct {
	SessionIdle   *int64 `json:"session_idle_seconds"`
	Session       *int64 `json:"session_seconds"`
	MetricsPublic *bool  `json:"metrics_public"`
	KeepVersions  *int   `json:"keep_versions"`
}

// Report says where boxes report to.
type Report struct {
	// URL is a registry's repository, a folder of an object store, or a folder of the box. Other boxes read there whether a stage
	// is passed.
	URL     string `json:"url"`
	Webhook string `json:"webhook"` // an http or https URL that reports are posted to
}

// Decode reads a document and checks it. Errors: Invalid, with every problem and its line; TooLarge.
func Decode(text []byte) (*Document, error) {
	const op = "fleet.Decode"
	parsed, err := document.Parse(File, document.JSON, text)
	d := &Document{}
	if err == nil {
		err = parsed.Decode(d, document.Schema{Name: "the document"})
	}
	if err != nil {
		kind := edgewise.Invalid
		if len(text) > MaxDocument {
			kind = edgewise.TooLarge
		}
		return nil, edgewise.Errorf(op, kind, "%w", err)
	}
	d.complete()
	if err := d.check(); err != nil {
		return nil, edgewise.Errorf(op, edgewise.Invalid, "%s: %w", File, err)
	}
	return d, nil
}

func (d *Document) complete() {
	for name, g := range d.Groups {
		if g.Percent == nil {
			g.Percent = new(float64)
			if len(g.Labels) > 0 {
				*g.Percent = 100
			}
			d.Groups[name] = g
		}
	}
	for i := range d.Models {
		e := &d.Models[i]
		if e.Label == "" {
			e.Label = edgewise.LiveLabel
		}
		for j := range e.Stages {
			if s := &e.Stages[j]; s.Done == nil && j > 0 {
				one := 1
				s.Done = &one
			}
		}
	}
}

func (d *Document) check() error {
	switch {
	case d.Format != 1:
		return fmt.Errorf("format is %d: this box reads 1", d.Format)
	case edgewise.CheckName(d.Fleet) != nil:
		return fmt.Errorf("fleet: %w", edgewise.CheckName(d.Fleet))
	case d.Serial < 1 || d.Serial > maxSerial:
		return fmt.Errorf("serial is %d: want 1 to %d", d.Serial, int64(maxSerial))
	case !d.Expires.IsZero() && !d.Expires.After(d.NotBefore):
		return fmt.Errorf("expires is not after not_before")
	case len(d.Models) > maxModels:
		return fmt.Errorf("it has %d models: at most %d are allowed", len(d.Models), maxModels)
	case len(d.Groups) > maxGroups:
		return fmt.Errorf("it has %d groups: at most %d are allowed", len(d.Groups), maxGroups)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Groups)) {
		if err := d.Groups[name].check(); err != nil {
			return fmt.Errorf("group %.64q: %w", name, err)
		}
		if !groupName.MatchString(name) || len(name) > maxGroupName || name == othersFolder {
			return fmt.Errorf("group %.64q: want a name of at most %d lower-case letters, digits, '-' and '_', and not %s", name, maxGroupName,
				othersFolder)
		}
	}
	seen := map[string]bool{}
	for i, e := range d.Models {
		if err := d.checkEntry(e); err != nil {
			return fmt.Errorf("models[%d]: %w", i, err)
		}
		if key := e.key(); seen[key] {
			return fmt.Errorf("models[%d]: label %s of model %s is in it twice", i, e.Label, e.Model)
		} else {
			seen[key] = true
		}
	}
	return d.checkReport()
}

func (g Group) check() error {
	switch {
	case len(g.Boxes) > maxBoxes:
		return fmt.Errorf("it names %d boxes: at most %d are allowed", len(g.Boxes), maxBoxes)
	case len(g.Labels) > maxLabels:
		return fmt.Errorf("it has %d labels: at most %d are allowed", len(g.Labels), maxLabels)
	case !(*g.Percent >= 0 && *g.Percent <= 100):
		return fmt.Errorf("percent is %g: want 0 to 100", *g.Percent)
	}
	return nil
}

// groupName matches names that may stand in paths of registries.
var groupName = pattern.New(`^[a-z0-9]+([_-][a-z0-9]+)*$`)

// The longest texts. The expressions do not count: {0,500} takes the memory of 500 expressions and 50 ms, in boxes of no fleet, too.
const (
	maxReference   = 507 + len("@sha256:") + 64 // bytes
	maxReportPlace = 506
	maxWebhook     = 1008
)

// reference matches what is named by a digest.
var reference = pattern.New(`^oci://[A-Za-z0-9][A-Za-z0-9._:/-]*@sha256:[0-9a-f]{64}$`)

func (d *Document) checkEntry(e Entry) error {
	switch {
	case edgewise.CheckName(e.Model) != nil:
		return edgewise.CheckName(e.Model)
	case edgewise.CheckLabel(e.Label) != nil:
		return edgewise.CheckLabel(e.Label)
	case len(e.Reference) > maxReference || !reference.MatchString(e.Reference):
		return fmt.Errorf("reference is %.100q: want oci://registry/name@sha256:..., since a tag may move after the signature", e.Reference)
	case len(e.Stages) > maxStages:
		return fmt.Errorf("it has %d stages: at most %d are allowed", len(e.Stages), maxStages)
	case e.Rollout != nil && (e.Label != edgewise.LiveLabel || e.Rollout.Version != 0):
		return fmt.Errorf("a rollout is for the label live, and names no version")
	case len(e.Stages) > 1 && (d.Report == nil || d.Report.URL == ""):
		return fmt.Errorf("a second stage needs reports: report.url says where boxes find them")
	}
	for i, s := range e.Stages {
		switch _, there := d.Groups[s.Group]; {
		case !there:
			return fmt.Errorf("stages[%d]: there is no group %.64q", i, s.Group)
		case i == 0 && s.Done != nil:
			return fmt.Errorf("stages[0]: done is for stages behind the first")
		case s.Done != nil && (*s.Done < 1 || *s.Done > maxDone):
			return fmt.Errorf("stages[%d]: done is %d: want 1 to %d", i, *s.Done, maxDone)
		}
	}
	return nil
}

// reportPlace matches where reports can be put and read.
var reportPlace = pattern.New(`^((oci|s3|gs|as)://|/)[^?#@\s]+$`)

func (d *Document) checkReport() error {
	if d.Report == nil {
		return nil
	}
	if u := d.Report.URL; u != "" && (len(u) > maxReportPlace || !reportPlace.MatchString(u)) {
		return fmt.Errorf("report.url is %.100q: want oci://, s3://, gs://, as:// or an absolute path", u)
	}
	if u := d.Report.Webhook; u != "" && (len(u) > maxWebhook || !webhook.MatchString(u)) {
		return fmt.Errorf("report.webhook is no http or https URL")
	}
	return nil
}

var webhook = pattern.New(`^https?://[^\s@]+$`)

// key names what an entry is about.
func (e Entry) key() string { return e.Model + "/" + e.Label }

// digest is that of the version's manifest, as sha256:HEX.
func (e Entry) digest() string {
	_, digest, _ := strings.Cut(e.Reference, "@")
	return digest
}
