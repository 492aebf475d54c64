package edgewise

import "context"

// Recorder follows the requests that an ensemble sends to its steps. It is safe for concurrent use.
type Recorder interface {
	// Ask is called before a request is sent to the model of a step. It returns the context of that request, and a
	// function that is called once with the response, or with the error. Neither keeps tensors after it has returned. A
	// Recorder that reads tensors calls picture.Settle before.
	Ask(ctx context.Context, step int, req *Request) (context.Context, func(resp *Response, err error))
}

type recorderKey struct{}

// WithRecorder returns a context under which ensembles call r.
func WithRecorder(ctx context.Context, r Recorder) context.Context {
	return context.WithValue(ctx, recorderKey{}, r)
}

// RecorderOf returns the Recorder that ctx carries, nil when there is none.
func RecorderOf(ctx context.Context) Recorder {
	r, _ := ctx.Value(recorderKey{}).(Recorder)
	return r
}
