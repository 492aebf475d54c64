package inference

import (
	"bufio"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/frontend"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// EventStream is the content type of server-sent events.
const EventStream = "text/event-stream; charset=utf-8"

// Events are the answers to a request to a decoupled model as server-sent events.
type Events struct {
	Size func(resp *edgewise.Response) int64 // how many bytes the event of a response takes, rather too many than too few
	// Append appends the event of a response. last tells whether it is the last one, which may be Empty.
	Append func(to []byte, resp *edgewise.Response, last bool) ([]byte, error)
	// Fail appends the event of an error behind the first event. It ends the stream, unless more follows.
	Fail func(to []byte, err error, more bool) []byte
	Free func() // frees the memory of the request; called once, also when Stream fails
}

// Stream has the engine answer req, whose memory outlives the handler, and answers with an event for each response as
// it comes. It waits for the first: what fails before that is a plain error. The model waits while the client reads
// slowly; when the client has gone the request is canceled.
func (h *Handlers) Stream(r *httpapi.Request, req *edgewise.Request, e Events) error {
	if err := h.forward(r, req); err != nil {
		e.Free()
		return err
	}
	req.Arrived = time.Now()
	s := &eventStream{
		h: h, req: req, events: e, lookup: h.lookup(r), path: string(r.Context().Path()),
		began: make(chan struct{}), failed: make(chan error, 1),
	}
	s.ctx, s.end = r.BeginStream()
	if s.trace = h.trace(r, req); s.trace != nil {
		s.ctx.Context = s.trace.Context(s.ctx.Context)
	}
	r.Counted = true
	body := httpapi.Written(s.run)
	select {
	case err := <-s.failed:
		_ = body.Close()
		return err
	case <-s.began:
	}
	r.Set(fiber.HeaderContentType, EventStream)
	r.Set(fiber.HeaderCacheControl, "no-store")
	r.Set("X-Accel-Buffering", "no")
	r.Context().SetBodyStream(body, -1)
	return nil
}

// eventStream is one answer. After the handler has returned it touches nothing of the connection but to end the request.
type eventStream struct {
	h      *Handlers
	req    *edgewise.Request
	events Events
	lookup func() (edgewise.ModelID, error)
	ctx    *frontend.Renewed
	end    func()
	path   string
	trace  edgewise.TracedRequest // nil: not traced

	once   sync.Once
	began  chan struct{} // closed when an event is about to be written, or all is over without an error
	failed chan error    // why there is no event
	writer *bufio.Writer
}

// run answers the request. What it leaves is freed before the connection reads its next request.
func (s *eventStream) run(w *bufio.Writer) {
	s.writer = w
	var err error
	defer func() {
		if cause := recover(); cause != nil {
			err = s.h.Panicked(cause, "POST", s.path)
		}
		if s.trace != nil {
			s.trace.End(err)
		}
		s.ctx.End()
		s.end()
		s.events.Free()
		s.over(err)
	}()
	s.req.Each = func(resp *edgewise.Response) error {
		defer s.ctx.Renew()
		defer resp.Release()
		if resp.Fault != nil {
			return s.write(s.events.Fail(nil, resp.Fault, true))
		}
		return s.event(resp, false)
	}
	resp, failure := s.h.Engine.Answer(s.ctx, s.req, edgewise.Exchange{
		Lookup: s.lookup, Deliver: func(resp *edgewise.Response) error { return s.event(resp, true) },
	})
	resp.Release()
	err = failure
}

// over ends the stream with the event of an error, or the wait for the first event.
func (s *eventStream) over(err error) {
	if err != nil {
		first := false
		s.once.Do(func() { first = true })
		if first {
			s.failed <- err
			return
		}
		_ = s.write(s.events.Fail(nil, err, false))
		return
	}
	s.once.Do(func() { close(s.began) })
}

// event writes the event of a response.
func (s *eventStream) event(resp *edgewise.Response, last bool) error {
	b := s.h.Memory().Take(s.events.Size(resp))
	if b == nil {
		return s.h.NoMemory()
	}
	defer b.Free()
	text, err := s.events.Append(b.Bytes[:0], resp, last)
	if err != nil || len(text) == 0 {
		return err
	}
	return s.write(text)
}

// write writes an event, and returns when the one before has left.
func (s *eventStream) write(event []byte) error {
	s.once.Do(func() { close(s.began) })
	if _, err := s.writer.Write(event); err != nil {
		return edgewise.Errorf("inference.Stream", edgewise.Canceled, "the client has gone: %w", err)
	}
	if err := s.writer.Flush(); err != nil {
		return edgewise.Errorf("inference.Stream", edgewise.Canceled, "the client has gone: %w", err)
	}
	return nil
}
