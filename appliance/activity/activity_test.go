package activity

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// errBroken is a failure of a model's own.
var errBroken = edgewise.Errorf("test", edgewise.Internal, "broken")

func TestABucketHoldsItsTimesWithinASixteenth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		us := rapid.Int64Range(0, int64(15*time.Minute/time.Microsecond)).Draw(t, "us")
		high := upper(bucketOf(time.Duration(us) * time.Microsecond))
		if high < float64(us) || high > float64(us)*(1+1.0/subCount)+1 {
			t.Errorf("%d us is told as %v", us, high)
		}
	})
	if bucketOf(-time.Second) != 0 || bucketOf(100*time.Hour) != buckets-1 {
		t.Error("times out of range have no bucket")
	}
}

func TestPercentilesAreThoseOfTheTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h histogram
		times := rapid.SliceOfN(rapid.Int64Range(1, 1e6), 1, 200).Draw(t, "us")
		for _, us := range times {
			h.add(time.Duration(us) * time.Microsecond)
		}
		var all Times
		h.addTo(&all)
		slices.Sort(times)
		for _, q := range []float64{0.5, 0.95, 0.99} {
			got := *all.Percentile(q)
			want := float64(times[max(1, int(q*float64(len(times))+0.5))-1])
			if got < want || got > want*(1+1.0/subCount)+1 {
				t.Errorf("p%v of %v is %v, want %v", q, times, got, want)
			}
		}
	})
	if new(Times).Percentile(0.5) != nil {
		t.Error("there is a percentile of nothing")
	}
}

func TestTheHistoryIsAnHour(t *testing.T) {
	var h History
	id := edgewise.ModelID{Name: "cat", Version: 1}
	now := time.Unix(1_700_000_000, 0)
	statistics := func(edgewise.ModelID) (edgewise.Statistics, bool) { return edgewise.Statistics{Pending: 2}, true }
	for range Steps * 5 * 2 {
		h.Note(id, Outcome{Took: time.Millisecond})
		h.Note(id, Outcome{Took: time.Millisecond, Err: errBroken})
		now = now.Add(time.Second)
		ticks := h.Tick(now, statistics).Models
		if len(ticks) != 1 || ticks[0].Requests != 2 || ticks[0].Errors != 1 || ticks[0].Pending != 2 {
			t.Fatalf("%+v", ticks)
		}
	}
	read := h.Read("", time.Hour)
	if len(read.Series) != 1 || len(read.Series[0].Requests) != Steps || read.Series[0].Requests[0] != 2 ||
		*read.Series[0].P50[Steps-1] < 1000 || !read.End.Equal(now) {
		t.Errorf("%+v", read)
	}
	if short := h.Read("cat", time.Minute); len(short.Series[0].Errors) != 12 ||
		len(h.Read("dog", time.Minute).Series) != 0 {
		t.Errorf("%+v", short)
	}
	for range Steps*5 + 10 {
		now = now.Add(time.Second)
		h.Tick(now, statistics)
	}
	if n := len(h.Read("", time.Hour).Series); n != 0 {
		t.Errorf("%d versions that nobody asked for an hour", n)
	}
	for i := range maxSeries + 50 {
		h.Note(edgewise.ModelID{Name: fmt.Sprint(i), Version: 1}, Outcome{Took: 1})
	}
	for range 5 {
		now = now.Add(time.Second)
		h.Tick(now, statistics)
	}
	if n := len(h.Read("", time.Hour).Series); n != maxSeries {
		t.Errorf("%d versions are kept", n)
	}
}

func TestATickSaysWhatClientsAskedForAndWhatModelsRan(t *testing.T) {
	var h History
	now := time.Unix(1_700_000_000, 0)
	none := func(edgewise.ModelID) (s edgewise.Statistics, ok bool) { return s, false }
	ensemble, part := edgewise.ModelID{Name: "ensemble", Version: 1}, edgewise.ModelID{Name: "part", Version: 1}
	for range 3 { // each second the same
		h.Note(ensemble, Outcome{Took: time.Millisecond})
		h.Note(ensemble, Outcome{Took: time.Millisecond, Err: errBroken})
		for range 4 {
			h.Note(part, Outcome{Took: time.Millisecond, Inside: true})
		}
		h.Note(part, Outcome{Took: time.Millisecond, Err: errBroken, Inside: true})
		h.Note(part, Outcome{Took: time.Millisecond})
		now = now.Add(time.Second)
		tick := h.Tick(now, none)
		if tick.Requests != 3 || tick.Errors != 1 {
			t.Errorf("clients asked %v times with %v errors, want 3 and 1", tick.Requests, tick.Errors)
		}
		if len(tick.Models) != 2 || tick.Models[0].Requests != 2 || tick.Models[1].Requests != 6 ||
			tick.Models[1].Errors != 1 || tick.Models[1].P50 == nil {
			t.Errorf("models %+v", tick.Models)
		}
	}
}

func TestTheLatestSecondsAreKept(t *testing.T) {
	var h History
	if got := h.Recent(); got == nil || len(got) != 0 {
		t.Errorf("%v before the first second", got)
	}
	for second := range RecentTicks + 5 {
		tick := admin.Tick{Time: time.Unix(int64(second), 0), Models: []admin.TickModel{
			{Model: "busy", Requests: 2}, {Model: "idle"}, {Model: "waiting", Pending: 1},
		}}
		h.Keep(&tick)
		if len(tick.Models) != 3 {
			t.Fatal("the second that is told was changed")
		}
	}
	got := h.Recent()
	if len(got) != RecentTicks || got[0].Time.Unix() != 5 || got[RecentTicks-1].Time.Unix() != RecentTicks+4 {
		t.Errorf("%d seconds, from %v", len(got), got[0].Time)
	}
	if m := got[0].Models; len(m) != 2 || m[0].Model != "busy" || m[1].Model != "waiting" {
		t.Errorf("models %+v", m)
	}
}

func TestEventsAreToldOnceAndAgainToWhoComesBack(t *testing.T) {
	h := NewHub()
	for i := range MaxEvents + 10 {
		h.Publish("model", i)
	}
	l, gap, err := h.Listen("anna", []string{"model"}, h.Last()-2)
	if err != nil || gap {
		t.Fatal(gap, err)
	}
	h.Publish("log", "not wanted")
	h.Publish("model", "new")
	var got []string
	for range 3 {
		e := <-l.events
		got = append(got, string(e.Data))
	}
	if want := []string{fmt.Sprint(MaxEvents + 8), fmt.Sprint(MaxEvents + 9), `"new"`}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, gap, _ := h.Listen("anna", []string{"model"}, 5); !gap {
		t.Error("what is not kept any more is not told")
	}
	for range MaxPerOwner - 2 {
		if _, _, err := h.Listen("anna", nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := h.Listen("anna", nil, 0); err == nil || edgewise.KindOf(err) != edgewise.Busy {
		t.Errorf("one more of anna: %v", err)
	}
	for i := range MaxListeners - MaxPerOwner {
		if _, _, err := h.Listen(fmt.Sprint(i), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := h.Listen("otto", nil, 0); err == nil {
		t.Error("one more of everybody")
	}
	l.Close()
	if _, _, err := h.Listen("otto", nil, 0); err != nil {
		t.Error(err)
	}
	for i := range backlog + 1 {
		h.Publish("model", i)
	}
	h.Close()
	if _, _, err := h.Listen("x", nil, 0); err == nil || edgewise.KindOf(err) != edgewise.Unavailable {
		t.Errorf("after the end: %v", err)
	}
}

func TestASlowListenerIsToldThatItMissed(t *testing.T) {
	h := NewHub()
	l, _, err := h.Listen("anna", []string{"model"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range backlog + 1 {
		h.Publish("model", i)
	}
	if !l.Missed() || l.Missed() {
		t.Error("it is not told, or told twice")
	}
}

func TestTheLogIsKeptWithinBounds(t *testing.T) {
	published := 0
	logs := NewLogs(func(string, any) { published++ })
	logger := slog.New(logs.Handler(slog.NewTextHandler(io.Discard, nil))).With("part", "x").WithGroup("g")
	logger.Warn("first")
	for i := range MaxLines {
		logger.Info("line", "i", i, "group", slog.GroupValue(slog.Int("a", 1)), "err",
			errors.New(strings.Repeat("e", 2*maxLineField)))
	}
	page := logs.List(LogQuery{Limit: 2, Text: "G.I=99"})
	if len(page.Lines) != 2 || page.Lines[0].Number != MaxLines+1-(MaxLines-9999)+1-1 &&
		page.Lines[0].Fields[1].Value == "" || page.Next == 0 {
		t.Errorf("%+v", page)
	}
	line := page.Lines[0]
	if line.Fields[0] != (admin.LogField{Key: "part", Value: "x"}) ||
		line.Fields[2] != (admin.LogField{Key: "g.group.a", Value: "1"}) || len(line.Fields[3].Value) != maxLineField {
		t.Errorf("%+v", line.Fields[:3])
	}
	if rest := logs.List(LogQuery{Limit: 2, Text: "g.i=99", Before: page.Next}); len(rest.Lines) != 2 ||
		rest.Lines[0].Number >= page.Next {
		t.Errorf("%+v", rest)
	}
	if got := logs.List(LogQuery{Limit: 10, Level: "warn"}); len(got.Lines) != 0 || published != MaxLines+1 {
		t.Errorf("the first line is still there: %+v, %d", got, published)
	}
}

func TestRequestsAreKeptWithinBounds(t *testing.T) {
	var r Requests
	began := time.Now()
	kinds := []edgewise.Kind{edgewise.Busy, edgewise.Guest}
	for i := range 2*MaxRequests + 5 {
		var failure error
		if i%2 == 1 {
			failure = edgewise.Errorf("test", kinds[i/2%2], "%s", strings.Repeat("f", 2*maxErrorBytes))
		}
		req := &edgewise.Request{
			Model:  edgewise.ModelID{Name: "cat", Version: 1},
			Inputs: []edgewise.Tensor{{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{2, 4}}},
		}
		resp := &edgewise.Response{Model: req.Model, Timing: edgewise.Timing{
			Queue: 10, Input: 20, Infer: 30, Output: 5,
			Batch: 8,
		}}
		r.Note(t.Context(), req.Model, req, resp, failure, began, time.Duration(i)*time.Microsecond, nil)
	}
	if list := r.List(RequestQuery{Limit: 3, Failed: true, Model: "cat"}); len(list) != 3 || !list[0].Failed ||
		list[0].Code != "guest" || list[1].Code != "busy" || len(list[0].Error) != maxErrorBytes ||
		list[0].Number <= list[1].Number {
		t.Errorf("%+v", list)
	}
	all := r.List(RequestQuery{Limit: 4 * MaxRequests})
	if len(all) != MaxRequests+2*MaxFailures || !slices.IsSortedFunc(all,
		func(a, b admin.RequestSummary) int { return int(b.Number) - int(a.Number) }) {
		t.Errorf("%d requests are kept, or not in order", len(all))
	}
	if list := r.List(RequestQuery{Limit: 9, Slower: 2 * MaxRequests * time.Microsecond}); len(list) != 5 {
		t.Errorf("%d slow ones", len(list))
	}
	if _, err := r.Get(1); err == nil || edgewise.KindOf(err) != edgewise.NotFound {
		t.Errorf("the first: %v", err)
	}
	d, err := r.Get(2*MaxRequests + 5)
	if err != nil || len(d.Spans) != 5 || d.Spans[3].Batch != 8 || d.Spans[3].Own != 2 || d.Inputs[0].Datatype != "FP32" {
		t.Errorf("%+v, %v", d, err)
	}
	for _, s := range d.Spans {
		if s.Start < 0 || math.IsNaN(s.Duration) {
			t.Errorf("%+v", s)
		}
	}
}

// TestTheQueueOfARequestSaysWhatItWaitedFor reads the waits of a request, which add up to its time in the queue.
func TestTheQueueOfARequestSaysWhatItWaitedFor(t *testing.T) {
	var r Requests
	req := &edgewise.Request{Model: edgewise.ModelID{Name: "face", Version: 1}}
	const ms = time.Millisecond
	resp := &edgewise.Response{Model: req.Model, Timing: edgewise.Timing{
		Queue: 40 * ms, Infer: ms, Batch: 1, Prepared: 2 * ms, Ahead: 2, Waits: []edgewise.Wait{
			{Cause: "cores", Model: edgewise.ModelID{Name: "ocr", Version: 3}, Requests: 3, Took: 31 * ms},
		},
	}}
	d, err := r.Get(r.Note(t.Context(), req.Model, req, resp, nil, time.Now(), 41*ms, nil))
	if err != nil {
		t.Fatal(err)
	}
	want := []admin.Wait{
		{Cause: "preparation", Duration: 2000},
		{Cause: "cores", Model: "ocr", Version: 3, Requests: 3, Duration: 31000},
		{Cause: "queue", Requests: 2, Duration: 7000},
	}
	for _, s := range d.Spans {
		if s.Kind == "queue" && !slices.Equal(s.Waits, want) || s.Kind != "queue" && s.Waits != nil {
			t.Errorf("%s waited for %+v, want %+v of the queue", s.Kind, s.Waits, want)
		}
	}
}

func TestGoodRequestsPushOutNoFailure(t *testing.T) {
	var r Requests
	id := edgewise.ModelID{Name: "cat", Version: 1}
	note := func(err error) {
		r.Note(t.Context(), id, &edgewise.Request{Model: id}, nil, err, time.Now(), 1, nil)
	}
	note(errBroken)
	for range 3 * MaxRequests {
		note(nil)
		note(edgewise.Errorf("test", edgewise.Invalid, "refused"))
	}
	if list := r.List(RequestQuery{Failed: true, Limit: 10 * MaxRequests}); len(list) != MaxFailures+1 ||
		list[MaxFailures].Code != "internal" || list[MaxFailures].Number != 1 {
		t.Errorf("%d failed and refused requests are kept, want %d of which the oldest failed", len(list), MaxFailures+1)
	}
	if d, err := r.Get(1); err != nil || d.Error != "broken" {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestEveryEndIsCountedOnceByCaller(t *testing.T) {
	if len(edgewise.Kinds())+1 != outcomes {
		t.Fatalf("%d outcomes for %d kinds", outcomes, len(edgewise.Kinds()))
	}
	var h History
	id := edgewise.ModelID{Name: "cat", Version: 1}
	key := &edgewise.Principal{Kind: "key", Name: "camera"}
	h.Note(id, Outcome{Took: time.Second})
	h.Note(id, Outcome{Took: 2 * time.Second, Caller: key})
	h.Note(id, Outcome{Inside: true, Caller: key})
	for _, kind := range edgewise.Kinds() {
		h.Note(id, Outcome{Took: time.Millisecond, Err: edgewise.Errorf("test", kind, "no"), Caller: key})
	}
	got := fmt.Sprint(h.Outcomes()[id])
	if !strings.HasPrefix(got, "[{key:camera busy 1} {key:camera canceled 1}") ||
		!strings.Contains(got, "{key:camera success 1}") ||
		!strings.HasSuffix(got, " {model success 1} {nobody success 1}]") {
		t.Errorf("%s", got)
	}
	success, fail, kinds := h.Totals(id)
	if success != (edgewise.Duration{Count: 3, Total: 3 * time.Second}) || fail.Count != uint64(len(edgewise.Kinds())) ||
		len(kinds) != len(edgewise.Kinds()) || fail.Total != 16*time.Millisecond {
		t.Errorf("%+v, %+v, %v", success, fail, kinds)
	}
	tick := h.Tick(time.Now(), func(edgewise.ModelID) (s edgewise.Statistics, ok bool) { return s, false }).Models[0]
	if tick.Requests != 19 || tick.Errors != 6 || tick.Refused != 10 {
		t.Errorf("%+v, want 19 requests of which 6 failed and 10 were refused", tick)
	}
	h.Loaded(id, "")
	if success, fail, _ := h.Totals(id); success.Count != 0 || fail.Count != 0 {
		t.Errorf("after another load %+v, %+v", success, fail)
	}
	if h.Health(id) != (edgewise.Health{}) {
		t.Errorf("after another load %+v", h.Health(id))
	}
}

func TestCallersAreToldApartWithinABound(t *testing.T) {
	var h History
	id := edgewise.ModelID{Name: "cat", Version: 1}
	for i := range 10 * maxCallers {
		h.Note(id, Outcome{Caller: &edgewise.Principal{Kind: "key", Name: fmt.Sprint(i)}})
	}
	list := h.Outcomes()[id]
	at := slices.IndexFunc(list, func(n edgewise.OutcomeCount) bool { return n.Caller == OtherCallers })
	if len(list) != maxCallers+1 || at < 0 || list[at].Count != 9*maxCallers {
		t.Errorf("%d callers, the others at %d: %+v", len(list), at, list)
	}
}

func TestAVersionFailsWhenHalfOfItsLatestRequestsDo(t *testing.T) {
	var h History
	id := edgewise.ModelID{Name: "cat", Version: 1}
	for _, step := range []struct {
		n       int
		err     error
		failing bool
		recent  int
		failed  int
	}{
		{3, nil, false, 3, 0},
		{2, errBroken, false, 5, 2},
		{100, edgewise.Errorf("test", edgewise.Invalid, "refused"), false, 5, 2},
		{100, &edgewise.Error{Kind: edgewise.Guest, Err: fmt.Errorf("in ensemble: %w",
			&edgewise.StepRefusal{Text: "no picture"})}, false, 5, 2},
		{1, errBroken, true, 6, 3},
		{1, nil, false, 7, 3},
		{100, errBroken, true, healthWindow, healthWindow},
		{15, nil, true, healthWindow, 17},
		{2, nil, false, healthWindow, 15},
		{100, nil, false, healthWindow, 0},
	} {
		for range step.n {
			h.Note(id, Outcome{Err: step.err})
		}
		got := h.Health(id)
		if got.Failing != step.failing || got.Recent != step.recent || got.Failed != step.failed {
			t.Errorf("after %d times %v: %+v, want %+v", step.n, step.err, got, step)
		}
	}
	if last := h.Health(id).LastError; last == nil || last.Message != "broken" || last.Code != "internal" {
		t.Errorf("%+v", last)
	}
}

func TestAVersionIsUnverifiedUntilARequestIsAnswered(t *testing.T) {
	var h History
	id := edgewise.ModelID{Name: "cat", Version: 1}
	h.Loaded(id, "its inputs are text")
	h.Note(id, Outcome{Err: errBroken})
	if got := h.Health(id).Unverified; got != "its inputs are text" {
		t.Errorf("after a failed request: %q", got)
	}
	h.Note(id, Outcome{})
	if got := h.Health(id).Unverified; got != "" {
		t.Errorf("after an answer: %q", got)
	}
}
