package grpcapi

import (
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/edgewise-ai/edgewise/api/inference"
)

// pointer is where a label points: at each look to the next of its versions, and at last to the last.
type pointer struct {
	mu       sync.Mutex // guards versions
	versions []int64
}

func (p *pointer) set(versions ...int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.versions = versions
}

func (p *pointer) version() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.versions[0]
	if len(p.versions) > 1 {
		p.versions = p.versions[1:]
	}
	return now
}

func TestALabelStandsForItsVersion(t *testing.T) {
	ts := start(t, nil)
	ts.beta.set(3)
	ctx, c := t.Context(), ts.client
	for _, test := range []struct {
		name, model, version string
		code                 codes.Code
		text                 string
	}{
		{"a label", "echo", "beta", codes.OK, ""},
		{"another label", "echo", "gamma", codes.InvalidArgument, "failed to get model version from specified version " +
			"string 'gamma': want a number above 0 or a label of the model"},
		{"a label of another case", "echo", "Beta", codes.InvalidArgument, "version string 'Beta'"},
		{"what can be no label", "echo", "../beta", codes.InvalidArgument, "version string '../beta'"},
		{"a label of a model that is not there", "dog", "beta", codes.InvalidArgument, "version string 'beta'"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := c.ModelMetadata(ctx, &inference.ModelMetadataRequest{Name: test.model, Version: test.version})
			wantStatus(t, err, test.code, test.text)
			_, err = c.ModelConfig(ctx, &inference.ModelConfigRequest{Name: test.model, Version: test.version})
			wantStatus(t, err, test.code, test.text)
			_, err = c.ModelReady(ctx, &inference.ModelReadyRequest{Name: test.model, Version: test.version})
			wantStatus(t, err, test.code, test.text)
			_, err = c.ModelStatistics(ctx, &inference.ModelStatisticsRequest{Name: test.model, Version: test.version})
			wantStatus(t, err, test.code, test.text)
			answer, err := c.ModelInfer(ctx,
				changed(func(r *request) { r.ModelName, r.ModelVersion = test.model, test.version }))
			wantStatus(t, err, test.code, test.text)
			if err == nil && answer.ModelVersion != "3" {
				t.Errorf("the answer is of version %q", answer.ModelVersion)
			}
		})
	}
}

func TestARequestGoesAlongWithALabelThatMoves(t *testing.T) {
	ts := start(t, nil)
	ts.beta.set(2, 3) // version 2 is not there any more when the request comes to it
	answer, err := ts.client.ModelInfer(t.Context(), changed(func(r *request) { r.ModelVersion = "beta" }))
	if err != nil || answer.ModelVersion != "3" {
		t.Errorf("%v %v", answer, err)
	}
	ts.beta.set(2, 3)
	st := ts.openStream(t, t.Context())
	for version, want := range map[string]bool{"beta": true, "2": false} {
		send(t, st, version, 4, func(r *request) { r.ModelVersion = version })
		if answer, err := st.Recv(); err != nil || (answer.ErrorMessage == "") != want {
			t.Errorf("version %s: %v %v", version, answer, err)
		}
	}
	ts.beta.set(2)
	_, err = ts.client.ModelInfer(t.Context(), changed(func(r *request) { r.ModelVersion = "beta" }))
	wantStatus(t, err, codes.NotFound, "version 2 is not found")
}
