package httpapi

import (
	"errors"
	"io"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
)

// minBorrowed is from how many bytes of tensors on memory of the model is asked for: copying fewer takes no longer than
// asking.
const minBorrowed = 64 << 10

// incoming is the body of an inference request. It is in one block. Where the model offers memory for tensors, they
// arrive there (decision 0038), and only the JSON part before them is in the block.
type incoming struct {
	block   *blocks.Block
	tensors []byte        // in memory of the model, which another process can write to; nil: they are in the block
	free    func()        // ends the use of tensors; nil where they are
	framed  *blocks.Block // copies of tensors whose content is checked before it is used; nil: there are none
}

// receive reads the body of an inference request and makes it, or its JSON part, the body that c has. The caller
// releases it. Errors: Busy, and those of stream.Read.
func (s *Server) receive(c *fiber.Ctx) (in incoming, err error) {
	from := streamOf(c)
	text, ok := s.borrow(&in, c, from)
	if !ok {
		in.block, text, err = s.readBody(c.Context(), from)
	} else if err = from.fill(text); err == nil {
		if err = from.fill(in.tensors); err == nil {
			err = from.end()
		}
	}
	if err != nil {
		in.release()
		return incoming{}, err
	}
	c.Request().SetBodyRaw(text)
	return in, nil
}

// borrow makes room for the JSON part of a body, and for its tensors in memory of their model. It returns false when
// the request does not say how long they are, or the model has no memory to offer.
func (s *Server) borrow(in *incoming, c *fiber.Ctx, from *stream) (text []byte, ok bool) {
	header := &c.Request().Header
	if from.length < minBorrowed || len(header.Peek(fiber.HeaderContentEncoding)) > 0 {
		return nil, false
	}
	jsonSize, err := kserve.ParseHeaderLength(string(header.Peek(kserve.HeaderLength)), int(from.length))
	n := from.length - int64(jsonSize)
	if err != nil || jsonSize == 0 || n < minBorrowed {
		return nil, false
	}
	id, err := s.inferenceID(c)
	if err != nil {
		return nil, false
	}
	b := s.memory.Take(int64(jsonSize))
	if b == nil || !b.Hold(n) {
		b.Free()
		return nil, false
	}
	tensors, free := s.deps.Engine.AllocBody(id, int(n))
	if tensors == nil {
		b.Free()
		return nil, false
	}
	in.block, in.tensors, in.free = b, tensors, free
	return b.Bytes[:jsonSize], true
}

func (in *incoming) release() {
	in.block.Free()
	in.framed.Free()
	if in.free != nil {
		in.free()
	}
}

// fill reads all of p. Errors: those of Read.
func (b *stream) fill(p []byte) error {
	_, err := io.ReadFull(b, p)
	return err
}

// end reads the end of a body of known length of which all bytes are read. Errors: those of Read.
func (b *stream) end() error {
	var none [1]byte
	if _, err := b.Read(none[:]); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// decodeIncoming reads the body of an inference request to a model; body is what c has of it.
func (s *Server) decodeIncoming(id edgewise.ModelID, f form, body []byte, in *incoming) (*kserve.InferRequest, error) {
	if in.tensors == nil {
		return s.decode(id, f, body)
	}
	req, err := s.decoder.InferApart(id, body, in.tensors)
	if err != nil {
		return nil, err
	}
	if err := s.copyFramed(in, req); err != nil {
		req.Release()
		return nil, err
	}
	return req, nil
}

// copyFramed copies the tensors whose elements have frames out of the memory that others can write to. Error: Busy.
func (s *Server) copyFramed(in *incoming, req *kserve.InferRequest) error {
	total := int64(0)
	for i := range req.Inputs {
		if req.Inputs[i].Type == edgewise.Bytes {
			total += int64(len(req.Inputs[i].Data))
		}
	}
	if total == 0 {
		return nil
	}
	if in.framed = s.memory.Take(total); in.framed == nil {
		return s.noMemory()
	}
	room := in.framed.Bytes
	for i := range req.Inputs {
		if t := &req.Inputs[i]; t.Type == edgewise.Bytes {
			n := copy(room, t.Data)
			t.Data, room = room[:n:n], room[n:]
		}
	}
	return nil
}
