package grpcapi

import (
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference/wire"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
)

// sharing is the shared memory that one request has open.
type sharing struct {
	inputs  []*blocks.Block
	windows []edgewise.Window // one for each of the request's answers; nil where the output is not shared
}

// share copies the inputs that are in shared memory, and opens the windows of the outputs. Inputs are copied because
// the client can change them at any time, also between their validation and their use.
func (s *Server) share(req *wire.Request) (sh sharing, err error) {
	defer func() {
		if err != nil {
			sh.close()
		}
	}()
	for i, place := range req.Shared {
		if !place.Set() {
			continue
		}
		if err := s.shareInput(&sh, &req.Inputs[i], place); err != nil {
			return sh, err
		}
	}
	for i, answer := range req.Answers {
		if !answer.Shared.Set() {
			continue
		}
		w, err := s.deps.Shared.Open(answer.Shared.Region, answer.Shared.Offset, answer.Shared.Size)
		if err != nil {
			return sh, err
		}
		if sh.windows == nil {
			sh.windows = make([]edgewise.Window, len(req.Answers))
		}
		sh.windows[i] = w
	}
	return sh, nil
}

func (s *Server) shareInput(sh *sharing, in *edgewise.Tensor, place kserve.Place) error {
	w, err := s.deps.Shared.Open(place.Region, place.Offset, place.Size)
	if err != nil {
		return err
	}
	defer w.Close()
	b := s.memory.Take(w.Size())
	if b == nil {
		return s.noMemory()
	}
	sh.inputs = append(sh.inputs, b)
	in.Data = b.Bytes[:w.Size():w.Size()]
	return w.Read(in.Data)
}

// deliver writes the outputs that go into shared memory.
func (sh sharing) deliver(req *wire.Request, resp *edgewise.Response) error {
	for i, w := range sh.windows {
		if w == nil {
			continue
		}
		at := slices.IndexFunc(resp.Outputs, func(t edgewise.Tensor) bool { return t.Name == req.Outputs[i] })
		if at < 0 {
			continue
		}
		out := &resp.Outputs[at]
		if size := int64(len(out.Data)); size > w.Size() {
			return edgewise.Errorf("grpcapi.deliver", edgewise.Invalid,
				"shared memory size specified with the request for output '%s' (%d bytes) should be at least %d bytes to hold "+
					"the results", out.Name, w.Size(), size)
		}
		if err := w.Write(out.Data); err != nil {
			return err
		}
	}
	return nil
}

func (sh sharing) close() {
	for _, b := range sh.inputs {
		b.Free()
	}
	for _, w := range sh.windows {
		if w != nil {
			w.Close()
		}
	}
}
