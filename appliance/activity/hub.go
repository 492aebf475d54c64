// Package activity keeps the recent activity of the appliance in bounded memory: log lines, requests, and the request
// rates and latencies of each version over the last hour. It publishes events to listeners.
package activity

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// Bounds of the events.
const (
	MaxEvents    = 1000 // kept for listeners that reconnect
	MaxListeners = 32
	MaxPerOwner  = 8   // listeners of one user or key; a closed connection is noticed within a second
	backlog      = 256 // events queued for one listener; further ones are dropped, and Missed reports that
)

// Event is one event of a topic. Data is JSON.
type Event struct {
	ID    uint64
	Topic string
	Data  []byte
}

// Hub publishes events to listeners. It is safe for concurrent use.
type Hub struct {
	mu        sync.Mutex // guards the fields below
	last      uint64
	kept      []Event // the latest MaxEvents, oldest first
	listeners map[*Listener]bool
	closed    bool
}

// NewHub returns a hub without listeners.
func NewHub() *Hub { return &Hub{listeners: map[*Listener]bool{}} }

// transient tells whether events of a topic are not kept: the next event replaces them.
func transient(topic string) bool {
	return topic == "statistics" || topic == "request" || topic == "log"
}

// Publish sends an event to the listeners of a topic.
func (h *Hub) Publish(topic string, data any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if transient(topic) && !h.wanted(topic) {
		return
	}
	text, err := json.Marshal(data)
	if err != nil {
		return // all published types can be encoded
	}
	h.last++
	e := Event{h.last, topic, text}
	if !transient(topic) {
		if len(h.kept) == MaxEvents {
			h.kept = slices.Delete(h.kept, 0, 1)
		}
		h.kept = append(h.kept, e)
	}
	for l := range h.listeners {
		if l.wants(topic) {
			l.tell(e)
		}
	}
}

// Wanted tells whether a topic has listeners.
func (h *Hub) Wanted(topic string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.wanted(topic)
}

func (h *Hub) wanted(topic string) bool {
	for l := range h.listeners {
		if l.wants(topic) {
			return true
		}
	}
	return false
}

// Listener receives the events of topics. It is used by one goroutine.
type Listener struct {
	hub    *Hub
	owner  string
	topics []string
	events chan Event
	missed bool // guarded by hub.mu
}

func (l *Listener) wants(topic string) bool { return slices.Contains(l.topics, topic) }

func (l *Listener) tell(e Event) {
	select {
	case l.events <- e:
	default:
		l.missed = true
	}
}

// Listen returns a listener of topics that receives the events after the event with an id; 0: only new events. gap
// tells that some of them are no longer kept, or that the id is of an earlier start. Errors: Busy with too many
// listeners, or too many of one owner; Unavailable when the appliance stops.
func (h *Hub) Listen(owner string, topics []string, after uint64) (l *Listener, gap bool, err error) {
	const op = "activity.Listen"
	h.mu.Lock()
	defer h.mu.Unlock()
	own := 0
	for other := range h.listeners {
		if other.owner == owner {
			own++
		}
	}
	switch {
	case h.closed:
		return nil, false, edgewise.Errorf(op, edgewise.Unavailable, "the box is stopping")
	case own >= MaxPerOwner || len(h.listeners) >= MaxListeners:
		return nil, false, edgewise.Errorf(op, edgewise.Busy, "%d streams of events are open, %d of them yours: at most "+
			"%d of one person and %d of everybody", len(h.listeners), own, MaxPerOwner, MaxListeners).
			WithReason("rate_limited").WithLimit(MaxPerOwner)
	}
	l = &Listener{hub: h, owner: owner, topics: topics, events: make(chan Event, backlog)}
	if after > 0 {
		gap = after > h.last || len(h.kept) > 0 && h.kept[0].ID > after+1 && len(h.kept) == MaxEvents
		for _, e := range h.kept {
			if e.ID > after && l.wants(e.Topic) {
				l.tell(e)
			}
		}
	}
	h.listeners[l] = true
	return l, gap || l.missed, nil
}

// Next waits for an event, at most wait. ok is false when none came; ended when none will come.
func (l *Listener) Next(wait time.Duration) (e Event, ok, ended bool) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case e, ok = <-l.events:
		return e, ok, !ok
	case <-timer.C:
		return e, false, false
	}
}

// Missed tells whether events were dropped since the last call, because the listener was too slow.
func (l *Listener) Missed() bool {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	missed := l.missed
	l.missed = false
	return missed
}

// Last returns the id of the latest event.
func (h *Hub) Last() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// Close removes the listener. It may be called more than once.
func (l *Listener) Close() {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	delete(l.hub.listeners, l)
}

// Close ends every stream.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.closed = true
	for l := range h.listeners {
		close(l.events)
	}
	h.listeners = map[*Listener]bool{}
}
