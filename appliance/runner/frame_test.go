package runner

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgewise-ai/edgewise"
)

func sampleRun() runFrame {
	return runFrame{
		run: 7, core: anywhere, solo: true, pads: true, out: 3, free: 128, attach: []attached{
			{3, 1 << 16},
			{4, 1 << 20},
		},
		inputs: []placed{
			{"a", edgewise.FP32, edgewise.Shape{1, 2}, place{3, 0, 8}},
			{"", edgewise.Bytes, edgewise.Shape{}, place{4, 64, 9}},
		},
		want: []string{"y", ""},
	}
}

func sampleDone() doneFrame {
	return doneFrame{
		run: 7, wide: true, input: 1, infer: 2, output: 3, copied: 4,
		outputs: []placed{{"", edgewise.Int8, edgewise.Shape{0, 5}, place{3, 64, 0}}},
	}
}

func TestFramesSurviveTheCrossing(t *testing.T) {
	all := cmp.AllowUnexported(runFrame{}, doneFrame{}, failure{}, pair{}, placed{}, place{}, attached{})
	run, err := decodeRun(sampleRun().append(nil)[1:])
	if diff := cmp.Diff(sampleRun(), run, all); err != nil || diff != "" {
		t.Error(err, diff)
	}
	done, err := decodeDone(sampleDone().append(nil)[1:])
	if diff := cmp.Diff(sampleDone(), done, all); err != nil || diff != "" {
		t.Error(err, diff)
	}
	want := failure{9, edgewise.Guest, "why"}
	if got, err := decodeFailure(want.append(nil)[1:]); err != nil || got != want {
		t.Error(err, got)
	}
	if got, err := decodePair(pair{1, 2}.append(nil, kindGrow)[1:]); err != nil || got != (pair{1, 2}) {
		t.Error(err, got)
	}
}

func TestFramesCutAnywhereAreRefused(t *testing.T) {
	run, done := sampleRun().append(nil)[1:], sampleDone().append(nil)[1:]
	for n := range run {
		if _, err := decodeRun(run[:n]); err == nil {
			t.Errorf("a run of %d bytes out of %d was accepted", n, len(run))
		}
	}
	for n := range done {
		if _, err := decodeDone(done[:n]); err == nil {
			t.Errorf("an answer of %d bytes out of %d was accepted", n, len(done))
		}
	}
}

// FuzzFrames feeds the decoders: they do not panic, and what they accept is within the bounds and crosses again.
func FuzzFrames(f *testing.F) {
	f.Add(sampleRun().append(nil))
	f.Add(sampleDone().append(nil))
	f.Add(failure{1, edgewise.Invalid, "no"}.append(nil))
	f.Add(pair{1, 2}.append(nil, kindGrow))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) == 0 || len(frame) > maxFrame {
			return
		}
		body := frame[1:]
		if done, err := decodeDone(body); err == nil {
			if again, err := decodeDone(done.append(nil)[1:]); err != nil ||
				!cmp.Equal(done, again, cmp.AllowUnexported(doneFrame{}, placed{}, place{})) {
				t.Errorf("%v became %v: %v", done, again, err)
			}
			for _, o := range done.outputs {
				if data, err := o.place.within(make([]byte, 100)); err == nil && uint64(len(data)) != o.place.size {
					t.Errorf("%v gave %d bytes", o.place, len(data))
				}
			}
		}
		if run, err := decodeRun(body); err == nil && (len(run.inputs) > maxTensors || len(run.attach) > maxAttached) {
			t.Errorf("beyond the bounds: %v", run)
		}
		_, _ = decodeFailure(body)
		_, _ = decodePair(body)
	})
}
