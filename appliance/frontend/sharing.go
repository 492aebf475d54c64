package frontend

import (
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
)

// SharedMemory holds the shared memory regions of clients on the same machine. All methods are safe for concurrent use.
type SharedMemory interface {
	// Allowed returns nil when clients may register regions. Errors: Unsupported.
	Allowed() error
	// Register gives a part of a shared memory object a name. Errors: Unsupported (not allowed here), Exists, Invalid,
	// Exhausted.
	Register(region edgewise.Region) error
	// Unregister removes a region, or all for the empty name. Errors: Unsupported.
	Unregister(name string) error
	// Status lists a region, or all for the empty name. Errors: NotFound.
	Status(name string) ([]edgewise.Region, error)
	// Open returns size bytes of a region from offset. Errors: NotFound, Invalid.
	Open(name string, offset, size int64) (edgewise.Window, error)
}

// Sharing is the shared memory that one request has open.
type Sharing struct {
	req     *kserve.Inference
	inputs  []*blocks.Block   // copies
	read    []edgewise.Window // of the inputs: Triton's clients see a region until the requests that name it have ended
	windows []edgewise.Window // one for each of the request's Answers; nil where the output is not shared
}

// Share copies the inputs of req that are in shared memory to memory, and opens the windows of the outputs. Inputs are
// copied because the client can change them at any time, also between their validation and their use. The caller closes
// the Sharing. Errors: blocks.ErrFull; NotFound, Invalid.
func (d *Deps) Share(memory *blocks.Memory, req *kserve.Inference) (s Sharing, err error) {
	s.req = req
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	for i, place := range req.Shared {
		if !place.Set() {
			continue
		}
		if err := s.copyInput(d.Shared, memory, &req.Inputs[i], place); err != nil {
			return s, err
		}
	}
	for i, answer := range req.Answers {
		if !answer.Shared.Set() {
			continue
		}
		w, err := d.Shared.Open(answer.Shared.Region, answer.Shared.Offset, answer.Shared.Size)
		if err != nil {
			return s, err
		}
		if s.windows == nil {
			s.windows = make([]edgewise.Window, len(req.Answers))
		}
		s.windows[i] = w
	}
	return s, nil
}

func (s *Sharing) copyInput(from SharedMemory, memory *blocks.Memory, in *edgewise.Tensor, place kserve.Place) error {
	w, err := from.Open(place.Region, place.Offset, place.Size)
	if err != nil {
		return err
	}
	s.read = append(s.read, w)
	b := memory.Take(w.Size())
	if b == nil {
		return blocks.ErrFull
	}
	s.inputs = append(s.inputs, b)
	in.Data = b.Bytes[:w.Size():w.Size()]
	return w.Read(in.Data)
}

// Outputs tells whether outputs go into shared memory.
func (s *Sharing) Outputs() bool { return s.windows != nil }

// Deliver writes the outputs that go into shared memory. Errors: Invalid for a window that is too small.
func (s *Sharing) Deliver(resp *edgewise.Response) error {
	for i, w := range s.windows {
		at := slices.IndexFunc(resp.Outputs, func(t edgewise.Tensor) bool { return t.Name == s.req.Answers[i].Name })
		if w == nil || at < 0 {
			continue
		}
		out := &resp.Outputs[at]
		if size := int64(len(out.Data)); size > w.Size() {
			return edgewise.Errorf("frontend.Deliver", edgewise.Invalid,
				"shared memory size specified with the request for output '%s' (%d bytes) should be at least %d bytes to hold "+
					"the results", out.Name, w.Size(), size)
		}
		if err := w.Write(out.Data); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the use of the shared memory, and of the copies of inputs.
func (s *Sharing) Close() {
	for _, b := range s.inputs {
		b.Free()
	}
	for _, w := range slices.Concat(s.read, s.windows) {
		if w != nil {
			w.Close()
		}
	}
}
