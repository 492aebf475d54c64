package tap

import (
	"time"

	"github.com/edgewise-ai/edgewise"
)

// Finished is a copy of a client's request that has ended, with its response. Its tensors are borrowed by the receiver
// for the call that it comes with, and nothing in it is changed.
type Finished struct {
	Model    edgewise.ModelID    // the version that answered, or that the request came to
	Caller   *edgewise.Principal // nil: not known
	Request  edgewise.Request    // as the client sent it, but for Each and Stop; its Model is the one that was asked for
	Response *edgewise.Response  // nil: there is none, Err says why
	Err      error               // also when there was a response and it could not be delivered
	Began    time.Time           // when the request had arrived
	Took     time.Duration
	// Decoupled is that the version may have any number of responses, which were released when they had been sent.
	Decoupled bool
}
