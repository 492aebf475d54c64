package serving

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/measure"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/gpu/onnx"
)

// reduced is what a model asks for in place of FP32 on a kind of devices; "": nothing.
func reduced(m *edgewise.Model, kind edgewise.DeviceKind) string {
	if m.Platform != onnx.Platform {
		return ""
	}
	return onnx.Precision(m, kind)
}

// toleranceOf is how much the outputs of a model may differ in a precision, as a part of the largest number: what the
// model says, or what a type of as many bits may. unchecked: the model is not compared.
func toleranceOf(m *edgewise.Model, precision string) (share float64, unchecked bool) {
	if precision == "" {
		return 0, true
	}
	stated := m.Parameters[modelconfig.PrecisionParameter].StringValue
	if share, err := strconv.ParseFloat(stated, 64); err == nil {
		return share, false
	}
	types := map[string]edgewise.DataType{
		"TF32": edgewise.FP32, "FP16": edgewise.FP16, "BF16": edgewise.BF16, "INT8": edgewise.BF16,
	}
	return measure.Tolerance(types[precision]), stated == modelconfig.PrecisionUnchecked
}

// compared tells whether a version asks for less than FP32 on the devices that it names, and is compared with FP32.
func (t *load) compared() bool {
	if leftOpen(t.version.Model) || !slices.ContainsFunc(t.version.Model.InstanceGroup, offCPU) {
		return false
	}
	_, unchecked := toleranceOf(t.version.Model, reduced(t.version.Model, edgewise.GPU))
	return !unchecked
}

// precise loads the version on its devices. Where it asks for less than FP32 there, it has to answer as it does in FP32
// on the CPU, unless that was found before. Error: Invalid when it answers otherwise.
func (t *load) precise(ctx context.Context) (edgewise.Instance, error) {
	precision := reduced(t.version.Model, t.place.devices[0].Kind)
	tolerance, unchecked := toleranceOf(t.version.Model, precision)
	if unchecked {
		return t.on(ctx)
	}
	subject, err := t.measured()
	if err != nil {
		return nil, err
	}
	usable, err := t.config.Devices.Usable()
	if err != nil {
		return nil, err
	}
	own := slices.DeleteFunc(slices.Clone(usable), func(d edgewise.DeviceInfo) bool {
		return !slices.Contains(t.place.devices, d.Device)
	})
	hardware := t.hardware(grouped(own))
	if f := t.Choice(t.version.ID); f != nil && f.Device != "" && f.Subject == subject && slices.Equal(f.Hardware, hardware) {
		return t.on(ctx)
	}
	check, err := t.reference(ctx, precision, tolerance)
	if err != nil {
		return nil, err
	}
	instance, err := t.onChecked(ctx, check, own, precision)
	found := check.Found()
	if found.Precision, found.Hardware, found.Subject = precision, hardware, subject; err != nil {
		found.Device = ""
	}
	if len(found.Candidates) > 1 { // it was loaded
		t.keep(found)
		t.config.Logger.Info("a model with a lower precision was compared with FP32", "model", t.version.ID.String(),
			"found", found.String(), "took_ms", found.Took)
	}
	return instance, err
}

// reference runs the samples in FP32 on the CPU. Error: Unsupported when that cannot be done.
func (t *load) reference(ctx context.Context, precision string, tolerance float64) (*measure.Check, error) {
	select {
	case t.trials <- struct{}{}: // it would disturb what is measured
		defer func() { <-t.trials }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s := &sampler{load: t}
	if err := s.read(); err != nil {
		return nil, err
	}
	check, err := measure.Trial{Samples: s.samples, Rules: s.rules, Tolerance: tolerance}.Check(ctx, measure.Candidate{
		Device: "cpu", Load: t.onCPU,
	})
	if err != nil && ctx.Err() == nil {
		err = edgewise.Errorf("serving.Load", edgewise.Unsupported,
			"model %v: it asks for %s and is compared with FP32 on the CPU, which cannot be done: %w; parameter %q %q does without",
			t.version.ID, precision, err, modelconfig.PrecisionParameter, modelconfig.PrecisionUnchecked)
	}
	return check, err
}

// onCPU loads the version on the CPU, whatever devices it names.
func (t *load) onCPU(ctx context.Context) (measure.Subject, error) {
	if err := t.roomBeside(); err != nil {
		return nil, err
	}
	v, m := *t.version, *t.version.Model
	m.InstanceGroup = []edgewise.InstanceGroup{{Name: m.Name + "_0", Kind: edgewise.KindCPU, Count: 1}}
	v.Model = &m
	own := *t
	own.version, own.declared, own.onClose = &v, &m, nil
	own.settle([]edgewise.Device{{}})
	instance, err := own.on(ctx)
	if err != nil {
		return nil, err
	}
	return newCandidate(&own, instance), nil
}

// onChecked loads the version on its devices, and compares each.
func (t *load) onChecked(
	ctx context.Context, check *measure.Check, devices []edgewise.DeviceInfo, precision string,
) (edgewise.Instance, error) {
	t.check = func(ctx context.Context, on edgewise.Device, i edgewise.Instance) error {
		at := slices.IndexFunc(devices, func(d edgewise.DeviceInfo) bool { return d.Device == on })
		err := check.Compare(ctx, on.String(), devices[at].Description, newCandidate(t, i))
		if last := check.Found().Candidates; err == nil || last[len(last)-1].State != admin.CandidateWrong {
			return err
		}
		return edgewise.Errorf("serving.Load", edgewise.Invalid,
			"model %v: with %s on %v it answers otherwise than in FP32 on the CPU: %w; parameter %q says how much it may differ",
			t.version.ID, precision, on, err, modelconfig.PrecisionParameter)
	}
	defer func() { t.check = nil }()
	instance, err := t.on(ctx)
	if err != nil && ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	return instance, err
}
