package inference

import (
	"io"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
	"github.com/edgewise-ai/edgewise/appliance/frontend"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// incoming is the body of an inference request. It is in one block. Where the model offers memory for tensors, they
// arrive there (decision 0038), and only the JSON part before them is in the block.
type incoming struct {
	id       edgewise.ModelID
	body     []byte // or its JSON part, where tensors are elsewhere
	block    *blocks.Block
	tensors  frontend.Borrowed // in memory of the model; none: they are in the block
	expanded *blocks.Block     // the body as it is without its content encoding; nil: it had none
}

// receive reads the body of an inference request. The caller releases it. Errors: Busy, NotFound, and those of
// Stream.Read and expand.
func (h *Handlers) receive(r *httpapi.Request) (in incoming, err error) {
	var unknown error
	in.id, unknown = h.ModelID(r)
	if unknown != nil || !h.borrow(&in, r) {
		in.block, in.body, err = r.ReadBody()
	} else if _, err = io.ReadFull(r.Stream, in.body); err == nil {
		if _, err = io.ReadFull(r.Stream, in.tensors.Bytes); err == nil {
			err = r.Stream.Finish()
		}
	}
	if err == nil {
		r.Request().SetBodyRaw(in.body)
		err = unknown
	}
	if err == nil {
		err = h.expand(r, &in)
	}
	if err != nil {
		in.release()
		return incoming{}, err
	}
	return in, nil
}

// Receive reads the body of a request that is JSON or a file alone, as it is without its content encoding. release ends
// its use. Errors: those of receive.
func (h *Handlers) Receive(r *httpapi.Request) (body []byte, release func(), err error) {
	in := new(incoming)
	if in.block, in.body, err = r.ReadBody(); err == nil {
		err = h.expand(r, in)
	}
	if err != nil {
		in.release()
		return nil, nil, err
	}
	return in.body, in.release, nil
}

// borrow makes room for the JSON part of a body, and for its tensors in memory of their model. It returns false when
// the request does not say how long they are, or the model has no memory to offer.
func (h *Handlers) borrow(in *incoming, r *httpapi.Request) bool {
	header, length := &r.Request().Header, r.Stream.Length()
	if length < frontend.MinBorrowed || len(httpapi.Field(header, fiber.HeaderContentEncoding)) > 0 {
		return false
	}
	jsonSize, err := kserve.ParseHeaderLength(string(httpapi.Field(header, kserve.HeaderLength)), int(length))
	n := length - int64(jsonSize)
	if err != nil || jsonSize == 0 || n < frontend.MinBorrowed {
		return false
	}
	b := h.Memory().Take(int64(jsonSize))
	if b == nil {
		return false
	}
	if in.tensors = h.Borrow(b, in.id, n); in.tensors.Bytes == nil {
		b.Free()
		return false
	}
	in.block, in.body = b, b.Bytes[:jsonSize]
	return true
}

func (in *incoming) release() {
	in.block.Free()
	in.expanded.Free()
	in.tensors.Release()
}
