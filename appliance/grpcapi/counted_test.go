package grpcapi

import (
	"context"
	"slices"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// TestEveryInferenceIsCountedOnce sends requests that end at every stage of the way, as calls of their own and on a
// stream.
func TestEveryInferenceIsCountedOnce(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(r *request)
		fail   error
		want   string
	}{
		{"answered", nil, nil, "echo 0 success"},
		{"a label", func(r *request) { r.ModelVersion = "beta" }, nil, "echo 3 success"},
		{"the model fails", nil, edgewise.Errorf("fake", edgewise.Internal, "broken"), "echo 0 internal"},
		{"a type that does not exist", func(r *request) { r.Inputs[0].Datatype = "X" }, nil, "echo 0 invalid"},
		{
			"the same, by a label", func(r *request) { r.ModelVersion, r.Inputs[0].Datatype = "beta", "X" }, nil,
			"echo 3 invalid",
		},
		{"a label that does not exist", func(r *request) { r.ModelVersion = "none" }, nil, "echo 0 invalid"},
		{"an unknown model", func(r *request) { r.ModelName = "dog" }, nil, "dog 0 not_found"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ts := start(t, nil)
			ts.beta.set(3)
			ts.engine.onInfer(func(context.Context, *edgewise.Request) error { return test.fail })
			r := raw(1)
			if test.change != nil {
				test.change(r)
			}
			_, _ = ts.client.ModelInfer(t.Context(), r)
			st := ts.openStream(t, t.Context())
			if err := st.Send(r); err != nil {
				t.Fatal(err)
			}
			if _, err := st.Recv(); err != nil {
				t.Fatal(err)
			}
			ts.engine.mu.Lock()
			defer ts.engine.mu.Unlock()
			if !slices.Equal(ts.engine.counted, []string{test.want, test.want}) {
				t.Errorf("counted %q, want 2 times %q", ts.engine.counted, test.want)
			}
		})
	}
}
