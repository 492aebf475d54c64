package serving

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/measure"
	"github.com/edgewise-ai/edgewise/host"
)

// Findings keeps what was measured of versions, as text. registry.Notes is one.
type Findings interface {
	Get(id edgewise.ModelID) string
	Set(id edgewise.ModelID, text string) error
}

// TrialConfig is how versions whose instance groups leave the kind of device open are tried on the devices of the box.
// Nil fields have no effect.
type TrialConfig struct {
	Limit    time.Duration // of each device but the CPU, the load included; 0: nothing is tried
	Findings Findings
	// Goldens returns requests to a model, as clients send them, and how answers to them are compared.
	Goldens func(model string) (requests []*edgewise.Request, rules []admin.CompareRule, err error)
}

// maxCandidates bounds the kinds of devices that a version is tried on, the CPU among them.
const maxCandidates = 8

// class is devices that are the same but for their number. They serve together.
type class []edgewise.DeviceInfo

func (c class) name() string { return c[0].Device.String() }

func (c class) devices() []edgewise.Device {
	list := make([]edgewise.Device, len(c))
	for i, d := range c {
		list[i] = d.Device
	}
	return list
}

// classes are what a version is tried on, the CPU first; nil when its instance groups do not leave the kind open, or there
// is nothing but the CPU.
func (t *load) classes() []class {
	m := t.version.Model
	notOpen := func(g edgewise.InstanceGroup) bool { return g.Kind != edgewise.KindAuto }
	if t.config.Trial.Limit == 0 || len(t.format.Devices) < 2 || t.format.External || slices.ContainsFunc(m.InstanceGroup, notOpen) {
		return nil
	}
	usable, err := t.usableFor(t.version)()
	if err != nil {
		return nil
	}
	named := len(m.Accelerators().GPU) > 0
	list := grouped(slices.DeleteFunc(slices.Clone(usable), func(d edgewise.DeviceInfo) bool {
		return !slices.Contains(t.format.Devices, d.Device.Kind) || named && d.Device.Kind != kindFor(m, usable)
	}))
	if len(list) == 1 {
		return nil
	}
	return list
}

// grouped puts devices that are the same together, behind the CPU.
func grouped(devices []edgewise.DeviceInfo) []class {
	list := []class{{{Name: "cpu", Kind: "cpu"}}}
	for _, d := range devices {
		at := slices.IndexFunc(list, func(c class) bool {
			return c[0].Device.Kind == d.Device.Kind && c[0].Description == d.Description && c[0].Driver == d.Driver
		})
		switch {
		case at >= 0:
			list[at] = append(list[at], d)
		case len(list) < maxCandidates:
			list = append(list, class{d})
		}
	}
	return list
}

// hardware describes what a measurement holds for.
func (t *load) hardware(list []class) []string {
	all := append([]string{fmt.Sprintf("%d cores", t.config.CoreCount)}, t.config.Devices.Identity()...)
	for _, c := range list[1:] {
		all = append(all, fmt.Sprintf("%d x %s: %s, %s", len(c), c.name(), c[0].Description, cmp.Or(c[0].Driver, "driver unknown")))
	}
	return all
}

// measured is the digest of what a measurement of the version was made of: its files and its configuration, whatever the
// model is called.
func (t *load) measured() (string, error) {
	nameless := *t.version.Model
	nameless.Name, nameless.InstanceGroup = "", slices.Clone(nameless.InstanceGroup)
	for i := range nameless.InstanceGroup {
		nameless.InstanceGroup[i].Name = ""
	}
	text, err := json.Marshal(struct {
		Model *edgewise.Model
		Files []edgewise.File
	}{&nameless, modelFiles(t.version)})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// choose loads the version on the device that a kept measurement names, or on that which a measurement finds.
func (t *load) choose(ctx context.Context, list []class) (edgewise.Instance, error) {
	subject, err := t.measured()
	if err != nil {
		return nil, err
	}
	hardware := t.hardware(list)
	if i := t.asFound(ctx, list, hardware, subject); i != nil || ctx.Err() != nil {
		return i, ctx.Err()
	}
	select {
	case t.trials <- struct{}{}: // one at a time: two would measure each other
		defer func() { <-t.trials }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var candidates []measure.Candidate
	for _, c := range list {
		candidates = append(candidates, measure.Candidate{
			Device: c.name(), Description: c[0].Description, Load: func(ctx context.Context) (measure.Subject, error) {
				return t.candidate(ctx, c)
			},
		})
	}
	s := &sampler{load: t}
	if err := s.read(); err != nil {
		return nil, err
	}
	precision := reduced(t.version.Model, edgewise.GPU)
	tolerance, _ := toleranceOf(t.version.Model, precision)
	found, winner, err := measure.Trial{
		Samples: s.samples, Rules: s.rules, Tolerance: tolerance, Limit: t.config.Trial.Limit,
	}.Run(ctx, candidates)
	if err != nil {
		return nil, err
	}
	found.Hardware, found.Subject, found.Precision = hardware, subject, precision
	t.config.Logger.Info("the device of a model was chosen by measurement", "model", t.version.ID.String(), "device",
		found.Device, "found", found.String(), "took_ms", found.Took)
	t.keep(found)
	return t.adopt(winner.(*candidate)), nil
}

// asFound loads the version where a kept measurement says; nil when there is none that holds here, or the device that it
// names cannot be used now.
func (t *load) asFound(ctx context.Context, list []class, hardware []string, subject string) edgewise.Instance {
	found := t.Choice(t.version.ID)
	if found == nil || found.Subject != subject || !slices.Equal(found.Hardware, hardware) {
		return nil
	}
	later := func(c admin.ChoiceCandidate) bool { return c.State == admin.CandidateNotTried }
	if found.Inputs != "" && slices.ContainsFunc(found.Candidates, later) {
		return nil
	}
	at := slices.IndexFunc(list, func(c class) bool { return c.name() == found.Device })
	if at < 0 {
		return nil
	}
	c, err := t.candidate(ctx, list[at])
	if err != nil {
		t.config.Logger.Warn("the device that was chosen for a model cannot be used: all are tried again", "model",
			t.version.ID.String(), "device", found.Device, "error", err)
		return nil
	}
	return t.adopt(c.(*candidate))
}

// adopt makes a candidate what is served.
func (t *load) adopt(c *candidate) edgewise.Instance {
	t.version, t.place, t.onClose = c.load.version, c.load.place, c.load.onClose
	return c.instance
}

// Choice returns what was measured of a version, nil when nothing was.
func (l *Loader) Choice(id edgewise.ModelID) *admin.Choice {
	if l.config.Trial.Findings == nil {
		return nil
	}
	var found admin.Choice
	if json.Unmarshal([]byte(l.config.Trial.Findings.Get(id)), &found) != nil {
		return nil
	}
	return &found
}

// Chosen is the device that a version was measured to run best on; "" when it has no choice.
func (l *Loader) Chosen(id edgewise.ModelID) string {
	if c := l.Choice(id); c != nil {
		return c.Device
	}
	return ""
}

// Forget removes what was measured of a version, so that its next load measures it again. Error: Unsupported when there is
// nothing to choose.
func (l *Loader) Forget(v *edgewise.Version) error {
	_, format, err := l.find(v.Model)
	if err != nil {
		return err
	}
	t := &load{Loader: l, version: v, format: format}
	if len(t.classes()) == 0 && !t.compared() || l.config.Trial.Findings == nil {
		return edgewise.Errorf("serving.Forget", edgewise.Unsupported, "model %v: its device is not chosen by measurement: "+
			"its instance groups name one, or the box has none but the CPU, or gpu.trial_time is 0", v.ID)
	}
	return l.config.Trial.Findings.Set(v.ID, "")
}

func (t *load) keep(found *admin.Choice) {
	if t.config.Trial.Findings == nil {
		return
	}
	text, err := json.Marshal(found)
	if err == nil {
		err = t.config.Trial.Findings.Set(t.version.ID, string(text))
	}
	if err != nil {
		t.config.Logger.Error("what was measured of a model was not written", "model", t.version.ID.String(), "error", err)
	}
}

// candidate loads the version on the devices of a class.
func (t *load) candidate(ctx context.Context, c class) (measure.Subject, error) {
	own := *t
	own.onClose = nil
	if c[0].Device.Kind != edgewise.CPU {
		if err := t.roomBeside(); err != nil {
			return nil, err
		}
	}
	own.settle(c.devices())
	instance, err := own.on(ctx)
	if err != nil {
		return nil, err
	}
	return newCandidate(&own, instance), nil
}

// roomBeside tells whether the machine has the memory for one more process of the version. Error: Exhausted.
func (t *load) roomBeside() error {
	inspection, err := t.inspection()
	if err != nil {
		return err
	}
	needs := inspection.ParameterBytes * MemoryFactor
	if available := host.AvailableMemory("/"); available < needs && host.TotalMemory("/") > 0 {
		return edgewise.Errorf("serving.choose", edgewise.Exhausted,
			"to try it takes about %d MiB of the machine's memory, and %d MiB are left", needs>>20, available>>20)
	}
	return nil
}
