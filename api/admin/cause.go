package admin

import "context"

type causeKey struct{}

// WithCause returns a context under which labels move for a reason, which the history of deployments keeps. The first
// reason counts: a step of a larger change does not replace that of the change.
func WithCause(ctx context.Context, cause string) context.Context {
	if CauseOf(ctx) != "" {
		return ctx
	}
	return context.WithValue(ctx, causeKey{}, cause)
}

// CauseOf returns the reason that ctx carries, "" when it carries none.
func CauseOf(ctx context.Context) string {
	cause, _ := ctx.Value(causeKey{}).(string)
	return cause
}
