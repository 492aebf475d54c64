package serving

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// asking makes a version on a GPU that sets a parameter of an accelerator.
func asking(accelerator, name, value, tolerance string) *edgewise.Version {
	v := openVersion(edgewise.KindGPU)
	v.Model.Optimization = &edgewise.Optimization{ExecutionAccelerators: &edgewise.ExecutionAccelerators{
		GPU: []edgewise.Accelerator{{Name: accelerator, Parameters: map[string]string{name: value}}},
	}}
	if tolerance != "" {
		v.Model.Parameters = map[string]edgewise.ModelParam{"precision_tolerance": {StringValue: tolerance}}
	}
	return v
}

func TestAVersionWithALowerPrecisionIsComparedWithFP32(t *testing.T) {
	const both, gpu = "cpu x 1, gpu:0 x 1", "gpu:0 x 1"
	fp16 := func(tolerance string) *edgewise.Version {
		return asking("tensorrt", "precision_mode", "FP16", tolerance)
	}
	for _, test := range []struct {
		name      string
		version   *edgewise.Version
		off       float64
		precision string // that was found; "": nothing was compared
		err       string // in part; "": none
		loads     string
	}{
		{"TF32", asking("cuda", "use_tf32", "1", ""), 0.002, "TF32", "", both},
		{
			"TF32 that is too far away",
			asking("cuda", "use_tf32", "true", ""), 0.005, "TF32",
			`with TF32 on gpu:0 it answers otherwise than in FP32 on the CPU: output "y" differs by up to 0.005, and 0.003 is allowed; ` +
				`parameter "precision_tolerance" says how much it may differ`, both,
		},
		{"no TF32", asking("cuda", "use_tf32", "0", ""), 0.5, "", "", gpu},
		{"TF32 that is not asked for", openVersion(edgewise.KindGPU), 0.5, "", "", gpu},
		{"FP16", fp16(""), 0.005, "FP16", "", both},
		{"FP16 that is too far away", fp16(""), 0.02, "FP16", "0.01 is allowed", both},
		{"a wide tolerance", fp16("0.05"), 0.02, "FP16", "", both},
		{"a narrow tolerance", fp16("0.004"), 0.005, "FP16", "0.004 is allowed", both},
		{"no comparison", fp16("off"), 0.5, "", "", gpu},
		{"FP32 of TensorRT", asking("tensorrt", "precision_mode", "FP32", ""), 0.5, "", "", gpu},
		{"INT8", asking("tensorrt", "trt_int8_enable", "1", ""), 0.04, "INT8", "", both},
		{"BF16", asking("tensorrt", "precision_mode", "BF16", ""), 0.06, "BF16", "0.05 is allowed", both},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newBench(simulated{row: slow}, simulated{row: slow, off: test.off})
				l := w.loader()
				found, loads, err := w.load(t, l, test.version)
				if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) || loads != test.loads {
					t.Fatalf("loaded on %s: %v", loads, err)
				}
				if (found == nil) != (test.precision == "") {
					t.Fatalf("found %v", found)
				}
				if found == nil {
					return
				}
				one := found.Candidate("gpu:0")
				if found.Precision != test.precision || one.Difference == nil || one.Difference.Output != "y" || found.Inputs != "generated" {
					t.Errorf("%+v: %+v", found, one)
				}
				again := "gpu:0 x 1" // what was right holds, and what was wrong is compared again
				if test.err != "" {
					again = both
				}
				if _, loads, _ = w.load(t, l, test.version); loads != again {
					t.Errorf("the second time: loaded on %s", loads)
				}
				if err := l.Forget(test.version); err != nil {
					t.Error(err)
				}
				if _, loads, _ = w.load(t, l, test.version); loads != both {
					t.Errorf("after that was asked for: loaded on %s", loads)
				}
			})
		})
	}
}

func TestEachDeviceOfAVersionWithALowerPrecisionIsCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBench(simulated{row: slow}, simulated{row: fast}, simulated{row: fast, off: 0.5})
		found, loads, err := w.load(t, w.loader(), asking("cuda", "use_tf32", "1", ""))
		if err == nil || !strings.Contains(err.Error(), "with TF32 on gpu:1") || loads != "cpu x 1, gpu:0 x 1, gpu:1 x 1" {
			t.Fatal(loads, err)
		}
		if found.Device != "" || found.Candidate("gpu:0").State != admin.CandidateChosen ||
			found.Candidate("gpu:1").State != admin.CandidateWrong {
			t.Errorf("%+v", found)
		}
	})
}

func TestALowerPrecisionThatNothingCanBeComparedWithIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBench(simulated{refuses: edgewise.Errorf("x", edgewise.Unsupported, "no kernel")}, simulated{row: fast})
		_, loads, err := w.load(t, w.loader(), asking("cuda", "use_tf32", "1", ""))
		if edgewise.KindOf(err) != edgewise.Unsupported || !strings.Contains(err.Error(), "no kernel") ||
			!strings.Contains(err.Error(), `"precision_tolerance" "off" does without`) || loads != "cpu x 1" {
			t.Error(loads, err)
		}
	})
}

// TestALowerPrecisionOfAnOpenKindHasItsTolerance is one that would be left out by that of its type.
func TestALowerPrecisionOfAnOpenKindHasItsTolerance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBench(simulated{row: slow}, simulated{row: fast, off: 0.006})
		v := asking("tensorrt", "precision_mode", "FP16", "")
		v.Model.InstanceGroup[0].Kind = edgewise.KindAuto
		found, _, err := w.load(t, w.loader(), v)
		if err != nil || found.Device != "gpu:0" || found.Precision != "FP16" {
			t.Errorf("%v, %v", found, err)
		}
	})
}
