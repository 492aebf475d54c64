package manager

import (
	"context"

	"github.com/edgewise-ai/edgewise"
)

// Loaded is a version that answers requests, with what else can be done with it. A field that is nil says that it
// cannot be done. A layer in front of the version replaces the fields that it changes and leaves the others, so that it
// hides none of them.
type Loaded struct {
	edgewise.Servable
	Isolated  edgewise.Isolated // tells of the process in which it runs
	Sequences Sequencer         // keeps its sequences
	// returns n bytes, aligned to 64, for inputs of a later request; nil when none are free. The caller calls free once,
	// also after Close. Another process can write to the memory at any time: it may hold numbers, and nothing that is
	// checked before it is used
	Borrow  func(n int) (data []byte, free func())
	Resize  func(m *edgewise.Model) // follows m's instance groups; returns at once and calls nobody back
	OnClose []func()                // called in this order once the Servable has been closed
}

// Sequencer is a Servable that keeps sequences. Both methods are safe for concurrent use and come before Close.
type Sequencer interface {
	// Holds tells whether the sequence that id names has begun there and takes further requests.
	Holds(id edgewise.Sequence) bool
	// Drain refuses new sequences from now on and returns when those that are there have ended, or ctx's error.
	Drain(ctx context.Context) error
}

// Close closes the Servable and calls OnClose. It is called once.
func (l *Loaded) Close() error {
	err := l.Servable.Close()
	for _, f := range l.OnClose {
		f()
	}
	return err
}
