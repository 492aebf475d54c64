package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/serving"
	"github.com/edgewise-ai/edgewise/gpu"
	"github.com/edgewise-ai/edgewise/store"
	"github.com/edgewise-ai/edgewise/store/documents"
)

// Diagnosis is what the doctor found. It is printed and encoded as JSON.
type Diagnosis struct {
	Version  string      `json:"version"`
	Platform string      `json:"platform"` // operating system and processor
	Cores    int         `json:"cores"`
	Runtime  string      `json:"runtime,omitempty"` // the ONNX Runtime that was loaded, and from where
	Missing  string      `json:"missing,omitempty"` // why none was
	GPU      *gpu.Report `json:"gpu"`
	// of other programs
	Backends []admin.Backend `json:"backends"`

	DataDir string        `json:"data_dir"`
	Usage   *store.Usage  `json:"usage,omitempty"`
	Report  *store.Report `json:"report,omitempty"`  // of the store; absent when it could not be examined
	Problem string        `json:"problem,omitempty"` // why it could not
}

// Examination says what the doctor is to do with the store. The zero value looks at names and sizes.
type Examination struct {
	Verify bool // read every file and compare its digest
	Repair bool // mend what can be mended; implies Verify
}

// Examine looks at the machine, the runtime and the store of a configuration. The store must not be in use by a serving
// box. A data folder that does not exist is not made: there is nothing to examine, and one by a wrong name would look sound.
// Errors: NotFound when that folder was to be verified or repaired. The error is that of the examination itself, not
// of what it found; see Diagnosis.Healthy.
func Examine(ctx context.Context, c config.Config, e Examination, logger *slog.Logger) (*Diagnosis, error) {
	d := &Diagnosis{Version: Version, Platform: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), DataDir: c.DataDir}
	found, err := serving.Probe(ctx, c)
	if err != nil {
		return d, edgewise.Errorf("appliance.Examine", edgewise.KindOf(err), "looking for the runtime: %w", err)
	}
	d.Runtime, d.Missing, d.GPU = found.Runtime, found.Missing, found.GPU
	d.Backends = serving.Backends(ctx, c)
	if _, err := os.Stat(c.DataDir); errors.Is(err, os.ErrNotExist) {
		d.Problem = fmt.Sprintf("none: %s does not exist; data_dir names the box's folder, with --set, --config or EDGEWISE_DATA_DIR", d.DataDir)
		if e == (Examination{}) {
			return d, nil // before its first start a box has none
		}
		return d, edgewise.Errorf("appliance.Examine", edgewise.NotFound, "data folder %s does not exist", d.DataDir)
	}
	options := storeOptions(c, logger)
	options.SnapshotEvery = -1
	if e.Repair {
		err := d.repair(ctx, options)
		return d, err
	}
	s, err := store.Open(c.DataDir, options)
	if err != nil {
		d.Problem = err.Error()
		return d, err
	}
	err = d.examine(ctx, s, e)
	return d, errors.Join(err, s.Close())
}

// repair mends the store and the documents of the box.
func (d *Diagnosis) repair(ctx context.Context, options store.Options) error {
	report, err := store.Repair(ctx, d.DataDir, options)
	d.Report = report
	if err != nil {
		return err
	}
	found, err := documents.Repair(d.DataDir, checkDocument)
	d.Report.Findings = append(d.Report.Findings, found...)
	return err
}

func (d *Diagnosis) examine(ctx context.Context, s *store.Store, e Examination) error {
	usage, err := s.Usage()
	if err != nil {
		return err
	}
	d.Usage = &usage
	if e.Verify {
		d.Report, err = s.Verify(ctx)
	} else {
		d.Report, err = s.Check(ctx)
	}
	if err != nil {
		return err
	}
	found, err := documents.Examine(d.DataDir, checkDocument)
	d.Report.Findings = append(d.Report.Findings, found...)
	return err
}

// Healthy returns nil when nothing is missing or damaged, and what is first otherwise.
func (d *Diagnosis) Healthy() error {
	switch {
	case d.Report != nil && !d.Report.OK():
		return edgewise.Errorf("appliance.Examine", edgewise.Corrupt,
			"the store needs attention: see the findings, and \"edgewise doctor --repair\"")
	case d.Missing != "":
		return edgewise.Errorf("appliance.Examine", edgewise.Unavailable, "%s", d.Missing)
	}
	return nil
}
