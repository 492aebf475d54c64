package modelconfig

import (
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// FuzzConfig holds that no text panics, and that what is complete has no list or map that is nil.
func FuzzConfig(f *testing.F) {
	f.Add(validConfig, uint8(0))
	f.Add("max_batch_size: 0\nmodel_warmup:\n- {name: w, batch_size: 1, inputs: {x: {dims: [9223372036854775807, 9]}}}\n",
		uint8(1))
	f.Add(`{"input":[{"name":"x","dims":[-1,9223372036854775807,2],"reshape":{"shape":[]}}]}`, uint8(2))
	f.Add(sequenceConfig, uint8(0))
	f.Add(raggedConfig, uint8(0))
	f.Fuzz(func(t *testing.T, text string, syntax uint8) {
		file := Files()[int(syntax)%len(Files())]
		m, err := Parse(file, []byte(text))
		if err != nil {
			return
		}
		m, err = Complete(m, "cat", validFiles, validSignature, testDefaults)
		if err != nil {
			return
		}
		if m.Input == nil || m.InstanceGroup == nil || m.MetricTags == nil || m.MaxBatchSize < 0 {
			t.Fatalf("incomplete: %+v", m)
		}
		for _, ins := range []*edgewise.Inspection{validSignature, sequenceSignature, raggedSignature, nil} {
			_ = Validate(m, sequenceFiles, ins, testDefaults)
		}
	})
}
