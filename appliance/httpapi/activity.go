package httpapi

import (
	"bufio"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// Event is something that happened. Data is JSON.
type Event struct {
	ID    uint64
	Topic string
	Data  []byte
}

// Listening is a stream of events. It is used by one goroutine.
type Listening interface {
	// Next waits for an event, at most wait. ok is false when none came; ended when none will come.
	Next(wait time.Duration) (e Event, ok, ended bool)
	// Missed tells whether events were dropped since it was last asked.
	Missed() bool
	// Close stops listening.
	Close()
}

// LogQuery says which lines of the log are wanted, RequestQuery which requests.
type (
	LogQuery struct {
		Level, Text string
		Before      uint64
		Limit       int
	}
	RequestQuery struct {
		Model  string
		Failed bool
		Slower time.Duration
		Limit  int
	}
)

// Activity is what the page watches. All methods are safe for concurrent use.
type Activity interface {
	// History returns the last span, of one model or of all for "".
	History(model string, span time.Duration) admin.History
	// Logs reads the log, Requests the latest requests, Request one of them. Errors: NotFound.
	Logs(q LogQuery) admin.LogPage
	Requests(q RequestQuery) []admin.RequestSummary
	Request(number uint64) (admin.RequestDetail, error)
	// Listen begins to listen, with what happened after an event's id; gap says that some of it is not kept any more.
	// Errors: Busy, Unavailable.
	Listen(owner string, topics []string, after uint64) (l Listening, gap bool, err error)
	// LastEvent returns the id of the latest event.
	LastEvent() uint64
}

// maxHistory is how far back the history goes.
const maxHistory = time.Hour

// history returns the last hour: GET /api/v1/statistics.
func (s *Server) history(c *fiber.Ctx) error {
	seconds, err := queryNumber(c, "seconds", int64(maxHistory/time.Second), 5, int64(maxHistory/time.Second))
	if err != nil {
		return err
	}
	return writeJSON(c, s.deps.Activity.History(strings.Clone(c.Query("model")), time.Duration(seconds)*time.Second))
}

const (
	maxLogText  = 200 // bytes of what is searched for
	defaultLogs = 200
)

// logs reads the log: GET /api/v1/logs.
func (s *Server) logs(c *fiber.Ctx) error {
	const op = "httpapi.logs"
	q := LogQuery{Level: strings.Clone(c.Query("level")), Text: strings.Clone(c.Query("q"))}
	if !slices.Contains([]string{"", "debug", "info", "warn", "error"}, q.Level) {
		return edgewise.Errorf(op, edgewise.Invalid, "query parameter level is %.40q: want debug, info, warn or error",
			q.Level)
	}
	if len(q.Text) > maxLogText {
		return edgewise.Errorf(op, edgewise.Invalid, "query parameter q has %d bytes: want at most %d", len(q.Text),
			maxLogText)
	}
	before, err := queryNumber(c, "before", 0, 1, 1<<62)
	if err != nil {
		return err
	}
	limit, err := queryNumber(c, "limit", defaultLogs, 1, maxPage)
	if err != nil {
		return err
	}
	q.Before, q.Limit = uint64(before), int(limit)
	return writeJSON(c, s.deps.Activity.Logs(q))
}

// requests lists the latest requests: GET /api/v1/requests.
func (s *Server) requests(c *fiber.Ctx) error {
	q := RequestQuery{Model: strings.Clone(c.Query("model")), Failed: c.Query("failed") == "true"}
	slower, err := queryNumber(c, "slower", 0, 0, 1<<40)
	if err != nil {
		return err
	}
	limit, err := queryNumber(c, "limit", defaultPage, 1, maxPage)
	if err != nil {
		return err
	}
	q.Slower, q.Limit = time.Duration(slower)*time.Microsecond, int(limit)
	return writeJSON(c, s.deps.Activity.Requests(q))
}

// request explains one request: GET /api/v1/requests/{number}.
func (s *Server) request(c *fiber.Ctx) error {
	number, err := strconv.ParseUint(rawParam(c, "number"), 10, 63)
	if err != nil {
		return edgewise.Errorf("httpapi.request", edgewise.Invalid, "request %.40q: want its number", rawParam(c, "number"))
	}
	d, err := s.deps.Activity.Request(number)
	if err != nil {
		return err
	}
	return writeJSON(c, d)
}

// pingTime is how often a stream of events says that it is there.
const pingTime = 5 * time.Second

// lookTime is how often it looks whether its client is there: a page that is loaded again has left the last one's stream
// behind, and a person may have only a few.
const lookTime = 250 * time.Millisecond

// allTopics are the events that there are, those behind the first few only for clients that ask for them.
func allTopics() []string {
	return []string{"model", "job", "statistics", "deployment", "settings", "log", "request", "update"}
}

// events streams what happens: GET /api/v1/events.
func (s *Server) events(c *fiber.Ctx) error {
	topics, err := s.topics(c)
	if err != nil {
		return err
	}
	after, err := lastEvent(c)
	if err != nil {
		return err
	}
	l, gap, err := s.deps.Activity.Listen(who(c).Actor()+who(c).Session, topics, after)
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, "text/event-stream")
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set("X-Accel-Buffering", "no")
	client := connOf(c.Context())
	c.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
		defer l.Close()
		s.stream(w, l, gap, func() bool { return client.revoked() != nil }, func() bool { return left(client.Conn) })
	})
	return nil
}

func (s *Server) stream(w *bufio.Writer, l Listening, gap bool, revoked, left func() bool) {
	say := func(id uint64, topic string, data []byte) bool {
		if id > 0 {
			_, _ = fmt.Fprintf(w, "id: %d\n", id)
		}
		_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", topic, data)
		return w.Flush() == nil
	}
	now := func() []byte {
		return fmt.Appendf(nil, `{"time":%q,"id":%d}`, time.Now().UTC().Format(time.RFC3339Nano), s.deps.Activity.LastEvent())
	}
	if !say(0, "hello", now()) || gap && !say(0, "gap", []byte("{}")) {
		return
	}
	pinged := time.Now()
	for {
		e, ok, ended := l.Next(max(time.Millisecond, min(lookTime, pingTime-time.Since(pinged))))
		if ended || revoked() || !ok && left() || ok && !say(e.ID, e.Topic, e.Data) {
			return
		}
		if l.Missed() && !say(0, "gap", []byte("{}")) {
			return
		}
		if time.Since(pinged) >= pingTime {
			pinged = time.Now()
			if !say(0, "ping", now()) {
				return
			}
		}
	}
}

// topics reads which events are wanted; some need a right.
func (s *Server) topics(c *fiber.Ctx) ([]string, error) {
	const op = "httpapi.topics"
	asked := allTopics()[:5]
	if text := c.Query("topics"); text != "" {
		asked = strings.Split(strings.Clone(text), ",")
	}
	var topics []string
	for _, t := range asked {
		if !slices.Contains(allTopics(), t) {
			return nil, edgewise.Errorf(op, edgewise.Invalid, "query parameter topics: there is no topic %.40q: want some of %s",
				t, strings.Join(allTopics(), ", "))
		}
		if operating := t == "log" || t == "job"; operating && who(c).Rights&edgewise.Operate == 0 {
			if c.Query("topics") == "" {
				continue
			}
			err := edgewise.Errorf(op, edgewise.Denied, "%s may not listen to %s: it needs the right operate", who(c).Actor(), t)
			err.Reason = "right_missing"
			return nil, err
		}
		topics = append(topics, t)
	}
	return topics, nil
}

// lastEvent reads the event behind which to go on: the header that browsers send when they connect again, else ?after.
func lastEvent(c *fiber.Ctx) (uint64, error) {
	text := c.Get("Last-Event-ID", c.Query("after"))
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, edgewise.Errorf("httpapi.lastEvent", edgewise.Invalid, "last event %.40q: want its number",
			strings.Clone(text))
	}
	return n, nil
}
