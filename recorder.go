package edgewise

import "context"

// Recorder follows what an ensemble asks of its steps. It is safe for concurrent use.
type Recorder interface {
	// Ask is called before a step's model is asked. It returns the context to ask under, and a function that is called
	// once with the answer, or why there is none. Nobody keeps the tensors of either when that has returned. Who reads
	// them settles them before.
	Ask(ctx context.Context, step int, req *Request) (context.Context, func(resp *Response, err error))
}

type recorderKey struct{}

// WithRecorder returns a context under which ensembles tell r what they do.
func WithRecorder(ctx context.Context, r Recorder) context.Context {
	return context.WithValue(ctx, recorderKey{}, r)
}

// RecorderOf returns the Recorder that ctx carries, nil when there is none.
func RecorderOf(ctx context.Context) Recorder {
	r, _ := ctx.Value(recorderKey{}).(Recorder)
	return r
}
