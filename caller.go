package edgewise

import (
	"context"
	"slices"
)

type callersKey struct{}

// WithCaller returns a context for requests that the model of a name makes while a request to it is in progress: it
// waits for them.
func WithCaller(ctx context.Context, model string) context.Context {
	return context.WithValue(ctx, callersKey{}, append(slices.Clip(callers(ctx)), model))
}

// Calls tells whether the model of a name waits for what is done under ctx. To ask it would be a circle: it could wait
// for an instance loop that waits for it.
func Calls(ctx context.Context, model string) bool { return slices.Contains(callers(ctx), model) }

func callers(ctx context.Context) []string {
	names, _ := ctx.Value(callersKey{}).([]string)
	return names
}
