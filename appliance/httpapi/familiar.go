package httpapi

import (
	"bytes"
	"slices"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// familiar is the head of an inference request that was answered, and what it says. Programs send the same request line and
// headers over and over, but for the length of the body: comparing them takes a small part of reading them.
type familiar struct {
	before, after  []byte // the head on both sides of the digits of Content-Length
	path           string // for the log
	name, version  string // of the model, as identify takes them
	model          []byte // its name in the path, percent-encoded as it came
	form           form
	jsonSize       int // bytes of the JSON part before tensors that need not stand behind it; 0: they do, or there is none
	rule           *rule
	authorization  []byte
	fromThisDevice bool
}

// match tells whether text begins with a familiar head, and returns its length and that of the body, in bytes. A body of more than
// limit is not familiar.
func (f *familiar) match(text []byte, limit int64) (head, body int, ok bool) {
	rest, ok := bytes.CutPrefix(text, f.before)
	if !ok {
		return 0, 0, false
	}
	digits, size := 0, int64(0)
	for digits < len(rest) && rest[digits]-'0' <= 9 {
		size = 10*size + int64(rest[digits]-'0')
		if digits++; size > limit {
			return 0, 0, false
		}
	}
	if digits == 0 || !bytes.HasPrefix(rest[digits:], f.after) {
		return 0, 0, false
	}
	return len(f.before) + digits + len(f.after), int(size), true
}

// learn remembers the head of a request that has just been answered, when another request with the same head needs nothing that
// the HTTP library does.
func (s *Server) learn(c *fiber.Ctx, req *kserve.InferRequest) {
	client, header := connOf(c.Context()), &c.Request().Header
	if f := client.familiar; f != nil {
		if n, _, ok := f.match(client.edges.head, s.cfg.MaxInferBytes); ok && n == len(client.edges.head) {
			return
		}
	}
	client.familiar = nil
	if s.forwarded != nil || client.visit.cookie || !plain(header) || !client.edges.confirmed(header) {
		return
	}
	name, err := param(c, "model")
	if err != nil {
		return
	}
	version, err := param(c, "version")
	if err != nil {
		return
	}
	_, model := s.access.find(header)
	f := &familiar{
		path: string(c.Request().URI().Path()), name: name, version: version, model: bytes.Clone(model), rule: client.visit.rule,
		form:          form{jsonSize: bytes.Clone(header.Peek(kserve.HeaderLength)), contentType: bytes.Clone(header.ContentType())},
		authorization: bytes.Clone(header.Peek(fiber.HeaderAuthorization)), fromThisDevice: loopback(c.Context()),
	}
	if !slices.ContainsFunc(req.Inputs, func(t edgewise.Tensor) bool { return t.Type == edgewise.Bytes }) {
		f.jsonSize, _ = kserve.ParseHeaderLength(string(f.form.jsonSize), header.ContentLength()) // 0 where there is no such header
	}
	if f.cut(bytes.Clone(client.edges.head)) {
		client.familiar = f
	}
}

// plain tells whether a head asks for nothing but an answer on a connection that stays, to a body of known length that is sent as it is.
func plain(header *fasthttp.RequestHeader) bool {
	for _, name := range [...]string{fiber.HeaderContentEncoding, fiber.HeaderAcceptEncoding, fiber.HeaderExpect, fiber.HeaderConnection} {
		if value := header.Peek(name); len(value) > 0 && !(name == fiber.HeaderConnection && equalFold(value, "keep-alive")) {
			return false
		}
	}
	return header.ContentLength() > 0 && string(header.Protocol()) == "HTTP/1.1"
}

// cut splits head around the digits of its one Content-Length, and tells whether that was found.
func (f *familiar) cut(head []byte) bool {
	for at := 0; at < len(head); {
		end := at + bytes.IndexByte(head[at:], '\n') + 1
		if name, value, ok := bytes.Cut(head[at:end], []byte{':'}); ok && equalFold(name, fiber.HeaderContentLength) {
			from := end - len(bytes.TrimLeft(value, " \t"))
			to := at + len(bytes.TrimRight(head[at:end], " \t\r\n"))
			f.before, f.after = head[:from:from], head[to:]
			return true
		}
		at = end
	}
	return false
}
