package administration

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/activity"
	"github.com/edgewise-ai/edgewise/appliance/history"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// activityRoutes are about what happens, and what has happened in the last hour.
func (h *handlers) activityRoutes() []httpapi.Route {
	const read = edgewise.Read
	return []httpapi.Route{
		{Method: "GET", Path: "/api/v1/statistics", Handler: show(h.history), Rights: read},
		{Method: "GET", Path: "/api/v1/statistics/recent", Handler: get(h.History.Recent), Rights: read},
		{Method: "GET", Path: "/api/v1/statistics/history", Handler: show(h.storedHistory), Rights: read},
		{Method: "GET", Path: "/api/v1/statistics/history.csv", Handler: h.storedCSV, Rights: read},
		{Method: "GET", Path: "/api/v1/events", Handler: h.events, Rights: read},
		{Method: "GET", Path: "/api/v1/logs", Handler: show(h.logs), Rights: edgewise.Operate},
		{Method: "GET", Path: "/api/v1/requests", Handler: show(h.requests), Rights: read},
		{Method: "GET", Path: "/api/v1/requests/:number", Handler: show(h.request), Rights: read},
	}
}

// maxHistory is how far back the history goes, in seconds.
const maxHistory = 3600

// history returns the last hour: GET /api/v1/statistics.
func (h *handlers) history(r *httpapi.Request) (found admin.History, err error) {
	seconds, err := queryNumber(r, "seconds", maxHistory, 5, maxHistory)
	if err != nil {
		return found, err
	}
	return h.History.Read(strings.Clone(r.Query("model")), time.Duration(seconds)*time.Second), nil
}

// storedHistory returns up to 31 days: GET /api/v1/statistics/history.
func (h *handlers) storedHistory(r *httpapi.Request) (found admin.StoredHistory, err error) {
	q := history.Query{
		Model: strings.Clone(r.Query("model")), Caller: strings.Clone(r.Query("caller")),
		By: strings.Clone(r.Query("by", history.ByTotal)),
	}
	for _, number := range []struct {
		name      string
		value     *int64
		otherwise int64
	}{{"seconds", &q.Range, 3600}, {"step", &q.Step, 60}, {"ago", &q.Ago, 0}} {
		if *number.value, err = queryNumber(r, number.name, number.otherwise, 0, history.MaxRange); err != nil {
			return found, err
		}
	}
	if r.Query("version") != "" {
		if q.Version, err = queryVersion(r, "version"); err != nil {
			return found, err
		}
	}
	return h.Stored(q)
}

// storedCSV returns the same as a table: GET /api/v1/statistics/history.csv.
func (h *handlers) storedCSV(r *httpapi.Request) error {
	found, err := h.storedHistory(r)
	if err != nil {
		return err
	}
	var table bytes.Buffer
	if err := history.WriteCSV(&table, &found); err != nil {
		return edgewise.Errorf("administration.storedCSV", edgewise.Internal, "%w", err)
	}
	r.Set(fiber.HeaderContentType, "text/csv; charset=utf-8")
	setFilename(r, "edgewise-"+found.To.Format("20060102-1504")+".csv")
	return r.Send(table.Bytes())
}

const (
	maxLogText  = 200 // bytes of what is searched for
	defaultLogs = 200
)

// logs reads the log: GET /api/v1/logs.
func (h *handlers) logs(r *httpapi.Request) (page admin.LogPage, err error) {
	const op = "administration.logs"
	q := activity.LogQuery{Level: strings.Clone(r.Query("level")), Text: strings.Clone(r.Query("q"))}
	if !slices.Contains([]string{"", "debug", "info", "warn", "error"}, q.Level) {
		return page, edgewise.Errorf(op, edgewise.Invalid, "query parameter level is %.40q: want debug, info, warn or error",
			q.Level)
	}
	if len(q.Text) > maxLogText {
		return page, edgewise.Errorf(op, edgewise.Invalid, "query parameter q has %d bytes: want at most %d", len(q.Text),
			maxLogText)
	}
	before, err := queryNumber(r, "before", 0, 1, 1<<62)
	if err != nil {
		return page, err
	}
	if q.Limit, err = queryLimit(r, defaultLogs); err != nil {
		return page, err
	}
	q.Before = uint64(before)
	return h.Logs.List(q), nil
}

// requests lists the latest requests: GET /api/v1/requests.
func (h *handlers) requests(r *httpapi.Request) ([]admin.RequestSummary, error) {
	q := activity.RequestQuery{Model: strings.Clone(r.Query("model")), Failed: r.Query("failed") == "true"}
	slower, err := queryNumber(r, "slower", 0, 0, 1<<40)
	if err != nil {
		return nil, err
	}
	if q.Limit, err = queryLimit(r, defaultPage); err != nil {
		return nil, err
	}
	q.Slower = time.Duration(slower) * time.Microsecond
	return h.Requests.List(q), nil
}

// request explains one request: GET /api/v1/requests/{number}.
func (h *handlers) request(r *httpapi.Request) (d admin.RequestDetail, err error) {
	number, err := strconv.ParseUint(r.Param("number"), 10, 63)
	if err != nil {
		return d, edgewise.Errorf("administration.request", edgewise.Invalid, "request %.40q: want its number",
			r.Param("number"))
	}
	return h.Requests.Get(number)
}

// pingTime is how often a stream of events says that it is there.
const pingTime = 5 * time.Second

// lookTime is how often it looks whether its client is there: a page that is loaded again has left the last one's stream
// behind, and a person may have only a few.
const lookTime = 250 * time.Millisecond

// allTopics are the events that there are, those behind the first few only for clients that ask for them.
func allTopics() []string {
	return []string{"model", "job", "statistics", "deployment", "rollout", "settings", "log", "request", "update"}
}

// events streams what happens: GET /api/v1/events.
func (h *handlers) events(r *httpapi.Request) error {
	topics, err := h.topics(r)
	if err != nil {
		return err
	}
	after, err := lastEvent(r)
	if err != nil {
		return err
	}
	l, gap, err := h.Hub.Listen(r.Caller.Actor()+r.Caller.Session, topics, after)
	if err != nil {
		return err
	}
	r.Set(fiber.HeaderContentType, "text/event-stream")
	r.Set(fiber.HeaderCacheControl, "no-store")
	r.Set("X-Accel-Buffering", "no")
	client := r.Client()
	r.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
		defer l.Close()
		h.stream(w, l, gap, client)
	})
	return nil
}

func (h *handlers) stream(w *bufio.Writer, l *activity.Listener, gap bool, client httpapi.Client) {
	say := func(id uint64, topic string, data []byte) bool {
		if id > 0 {
			_, _ = fmt.Fprintf(w, "id: %d\n", id)
		}
		_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", topic, data)
		return w.Flush() == nil
	}
	now := func() []byte {
		return fmt.Appendf(nil, `{"time":%q,"id":%d}`, time.Now().UTC().Format(time.RFC3339Nano), h.Hub.Last())
	}
	if !say(0, "hello", now()) || gap && !say(0, "gap", []byte("{}")) {
		return
	}
	pinged := time.Now()
	for {
		e, ok, ended := l.Next(max(time.Millisecond, min(lookTime, pingTime-time.Since(pinged))))
		if ended || client.Revoked() || !ok && client.Left() || ok && !say(e.ID, e.Topic, e.Data) {
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
func (h *handlers) topics(r *httpapi.Request) ([]string, error) {
	const op = "administration.topics"
	asked := allTopics()[:6]
	if text := r.Query("topics"); text != "" {
		asked = strings.Split(strings.Clone(text), ",")
	}
	var topics []string
	for _, t := range asked {
		if !slices.Contains(allTopics(), t) {
			return nil, edgewise.Errorf(op, edgewise.Invalid, "query parameter topics: there is no topic %.40q: want some of %s",
				t, strings.Join(allTopics(), ", "))
		}
		if operating := t == "log" || t == "job"; operating && r.Caller.Rights&edgewise.Operate == 0 {
			if r.Query("topics") == "" {
				continue
			}
			return nil, edgewise.Errorf(op, edgewise.Denied, "%s may not listen to %s: it needs the right operate",
				r.Caller.Actor(), t).WithReason("right_missing")
		}
		topics = append(topics, t)
	}
	return topics, nil
}

// lastEvent reads the event behind which to go on: the header that browsers send when they connect again, else ?after.
func lastEvent(r *httpapi.Request) (uint64, error) {
	text := r.Get("Last-Event-ID", r.Query("after"))
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, edgewise.Errorf("administration.lastEvent", edgewise.Invalid, "last event %.40q: want its number",
			strings.Clone(text))
	}
	return n, nil
}
