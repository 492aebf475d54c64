package httpapi

import (
	"bufio"
	"io"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// answerHead is the room for the head of an answer, in bytes: more than its fixed parts and its numbers take.
const answerHead = 256

// again answers a request whose beginning is text, all that was read of it, when its head is familiar: without the HTTP library and
// the router, by the same steps otherwise. It tells whether it did; if not, nothing has happened, and the request is the
// library's. An error ends the connection, whose client has been told if there was something to say.
func (s *Server) again(c *conn, text []byte) (answered bool, err error) {
	f := c.familiar
	if f == nil || s.deps.Tracing != nil && s.deps.Tracing.On() {
		return false, nil
	}
	head, size, ok := f.match(text, s.cfg.MaxInferBytes)
	if !ok || len(text) > head+size || !s.readmit(c, f) {
		return false, nil
	}
	if done := c.visit.done; done != nil {
		defer done()
	}
	in, ok := s.expect(f, size)
	if !ok {
		return false, nil
	}
	defer in.release()
	if !c.begin() {
		return false, nil
	}
	last := s.enter()
	defer s.leave()
	defer func() {
		if cause := recover(); cause != nil {
			err = s.fault(c, f, s.panicked(cause, fiber.MethodPost, f.path), true)
		}
		if c.end() && err == nil {
			err = io.EOF
		}
	}()
	if err := s.fill(&in, c, text[head:]); err != nil {
		return true, s.fault(c, f, err, true)
	}
	answer, err := s.inferAgain(c, f, &in)
	if err != nil {
		return true, s.fault(c, f, err, last)
	}
	defer answer.block.free()
	now := time.Now()
	if _, err := c.send(answer.whole(s.date.at(now), last), now); err != nil {
		return true, err
	}
	return true, s.next(c, now, last)
}

// readmit decides whether who sent a familiar head may still do what it says: keys are revoked, and have limits.
func (s *Server) readmit(c *conn, f *familiar) bool {
	c.visit = visit{rule: f.rule, who: openVisitor}
	if s.deps.Accounts == nil || s.deps.Open {
		return true
	}
	v := &c.visit
	v.who = nil
	err := s.bearer(v, f.authorization, f.fromThisDevice)
	if err == nil && v.who != nil && s.permit(v, f.model) == nil {
		return true
	}
	if v.done != nil {
		v.done()
	}
	return false
}

// inferAgain answers one inference, as infer does.
func (s *Server) inferAgain(c *conn, f *familiar, in *incoming) (answer composed, err error) {
	id, err := s.identify(f.name, f.version)
	if err != nil {
		return answer, err
	}
	req, err := s.decodeIncoming(id, f, in)
	if err != nil {
		return answer, err
	}
	defer req.Release()
	sh, err := s.share(req)
	if err != nil {
		return answer, err
	}
	defer sh.close()
	req.Arrived = time.Now()
	ctx := asked(c.watch(s.span.begin(req.Arrived)), c.visit.who)
	defer c.unwatch()
	resp, err := edgewise.InferLabelled(ctx, s.deps.Engine, &req.Request, func() (edgewise.ModelID, error) { return s.identify(f.name, f.version) })
	if err != nil {
		return answer, err
	}
	defer resp.Release()
	if err := sh.deliver(req, resp); err != nil {
		return answer, err
	}
	s.setClasses(req, resp.Model)
	return s.compose(req, resp, answerHead)
}

// whole puts the head of an answer before its body and returns both.
func (a *composed) whole(date []byte, last bool) []byte {
	var room [answerHead]byte
	head := append(room[:0], "HTTP/1.1 200 OK\r\nDate: "...)
	head = append(head, date...)
	head = append(append(head, "\r\nContent-Type: "...), a.contentType()...)
	head = strconv.AppendInt(append(head, "\r\nContent-Length: "...), int64(len(a.body)), 10)
	if a.binary() {
		head = strconv.AppendInt(append(head, "\r\n"+kserve.HeaderLength+": "...), int64(a.jsonSize), 10)
	}
	if last {
		head = append(head, "\r\nConnection: close"...)
	}
	head = append(head, "\r\n\r\n"...)
	from := answerHead - len(head)
	copy(a.all[from:], head)
	return a.all[from:]
}

// fault answers with an error in the words that the library's way has for it, and closes the connection when that is the last answer.
func (s *Server) fault(c *conn, f *familiar, cause error, last bool) error {
	var ctx fasthttp.RequestCtx
	ctx.Init2(c, nil, false)
	ctx.Request.Header.SetMethod(fiber.MethodPost)
	ctx.Request.SetRequestURI(f.path)
	s.writeError(&ctx, cause)
	if last {
		closeAfter(&ctx)
	}
	out := bufio.NewWriterSize(c, answerBuffer)
	if err := ctx.Response.Write(out); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return s.next(c, time.Now(), last)
}

// next lets the client idle before its next request. Error: io.EOF after the last one.
func (s *Server) next(c *conn, now time.Time, last bool) error {
	c.reads.want = now.Add(s.cfg.IdleTimeout)
	if last {
		return io.EOF
	}
	return nil
}
