package manager

import "github.com/edgewise-ai/edgewise"

// Loaded is a version that answers requests, with what else can be done with it. A field that is nil says that it
// cannot be done. A layer in front of the version replaces the fields that it changes and leaves the others, so that it
// hides none of them.
type Loaded struct {
	edgewise.Servable
	Isolated  edgewise.Isolated  // tells of the process in which it runs
	Sequences edgewise.Sequencer // keeps its sequences
	// returns memory for inputs of a request to come; see edgewise.BodyAllocator
	Borrow  func(n int) (data []byte, free func())
	Resize  func(m *edgewise.Model) // follows m's instance groups; returns at once and calls nobody back
	OnClose []func()                // called in this order once the Servable has been closed
}

// Close closes the Servable and calls OnClose. It is called once.
func (l *Loaded) Close() error {
	err := l.Servable.Close()
	for _, f := range l.OnClose {
		f()
	}
	return err
}
