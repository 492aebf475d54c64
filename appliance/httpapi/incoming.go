package httpapi

import (
	"errors"
	"io"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// minLoan is for how many bytes of tensors memory of the model is asked for: copying fewer takes no longer than asking.
const minLoan = 64 << 10

// incoming is where the body of a familiar request goes as it arrives: into one block; or, where the model lends memory for tensors, they
// there and the JSON part before them into the block. Another process can write to what is lent.
type incoming struct {
	block   *block
	text    []byte // the body, or its JSON part
	tensors []byte // what comes after text; nil: all is text
	free    func() // ends the loan of tensors; nil: there is none
	framed  *block // copies of tensors whose content is checked before it is used; nil: there are none
}

// expect makes room for a body of size bytes and tells whether there is any. The caller releases it.
func (s *Server) expect(f *familiar, size int) (in incoming, ok bool) {
	if s.expectApart(&in, f, size-f.jsonSize) {
		return in, true
	}
	if in.block = s.memory.take(int64(size)); in.block == nil {
		return in, false
	}
	start := bodyStart(f.form.jsonSize)
	in.text = in.block.bytes[start : start+size]
	return in, true
}

// expectApart makes room for a body with n bytes of tensors apart from its JSON part, if the model lends memory for them.
func (s *Server) expectApart(in *incoming, f *familiar, n int) bool {
	if f.jsonSize == 0 || n < minLoan {
		return false
	}
	id, err := s.identify(f.name, f.version)
	if err != nil {
		return false
	}
	b := s.memory.take(int64(f.jsonSize))
	if b == nil || !b.hold(int64(n)) {
		b.free()
		return false
	}
	tensors, free := s.deps.Engine.Lend(id, n)
	if tensors == nil {
		b.free()
		return false
	}
	in.block, in.text, in.tensors, in.free = b, b.bytes[:f.jsonSize], tensors, free
	return true
}

func (in *incoming) release() {
	in.block.free()
	in.framed.free()
	if in.free != nil {
		in.free()
	}
}

// fill reads a body that begins with part. Errors: those of stream.Read.
func (s *Server) fill(in *incoming, c *conn, part []byte) error {
	size, have := len(in.text)+len(in.tensors), copy(in.text, part)
	have += copy(in.tensors, part[have:])
	if have == size {
		return nil
	}
	from := stream{
		reader: &tail{c, size - have}, conn: c, timeout: s.cfg.BodyTimeout, length: int64(size), received: int64(have),
		limit: limit{"an inference request (http.max_body_bytes)", s.cfg.MaxInferBytes, 0},
	}
	for have < size {
		room := in.text[min(have, len(in.text)):]
		if len(room) == 0 {
			room = in.tensors[have-len(in.text):]
		}
		n, err := from.Read(room)
		if have += n; err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

// tail reads the bytes of a connection that are left of a request.
type tail struct {
	conn *conn
	left int
}

// Read reads from the connection; io.EOF when nothing is left.
func (t *tail) Read(p []byte) (int, error) {
	if t.left == 0 {
		return 0, io.EOF
	}
	n, err := t.conn.receive(p[:min(len(p), t.left)])
	t.left -= n
	return n, err
}

// decodeIncoming reads the body of an inference request to a model.
func (s *Server) decodeIncoming(id edgewise.ModelID, f *familiar, in *incoming) (*kserve.InferRequest, error) {
	if in.tensors == nil {
		return s.decode(id, f.form, in.text)
	}
	req, err := s.decoder.InferApart(id, in.text, in.tensors)
	if err != nil {
		return nil, err
	}
	if err := s.takeFramed(in, req); err != nil {
		req.Release()
		return nil, err
	}
	return req, nil
}

// takeFramed copies the tensors whose elements have frames out of the memory that others can write to. Error: Busy.
func (s *Server) takeFramed(in *incoming, req *kserve.InferRequest) error {
	total := int64(0)
	for i := range req.Inputs {
		if req.Inputs[i].Type == edgewise.Bytes {
			total += int64(len(req.Inputs[i].Data))
		}
	}
	if total == 0 {
		return nil
	}
	if in.framed = s.memory.take(total); in.framed == nil {
		return s.noMemory()
	}
	room := in.framed.bytes
	for i := range req.Inputs {
		if t := &req.Inputs[i]; t.Type == edgewise.Bytes {
			n := copy(room, t.Data)
			t.Data, room = room[:n:n], room[n:]
		}
	}
	return nil
}
