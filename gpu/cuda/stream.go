package cuda

/*
#include "cuda.h"
*/
import "C"

// Stream is a queue of work on a device, done in order and beside other streams'.
type Stream struct {
	ctx    *Ctx
	handle C.cu_handle
}

// MakeStream makes a stream that does not wait for the default one.
func (c *Ctx) MakeStream() (*Stream, error) {
	s := &Stream{ctx: c}
	if err := c.driver.check("MakeStream", C.cu_stream(c.driver.c, c.handle, &s.handle)); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Stream) check(call string, r C.cu_result) error { return s.ctx.driver.check(call, r) }

// Handle returns the driver's handle, which other libraries of the process take as a stream of theirs.
func (s *Stream) Handle() uintptr { return uintptr(s.handle) }

// Synchronize waits until all work of the stream has ended, and returns the error that ended it. It keeps a thread.
func (s *Stream) Synchronize() error {
	return s.check("Stream.Synchronize", C.cu_stream_synchronize(s.ctx.driver.c, s.ctx.handle, s.handle))
}

// WaitEvent makes the stream's further work wait until the device has got to the event's last record.
func (s *Stream) WaitEvent(e *Event) error {
	return s.check("WaitEvent", C.cu_stream_wait(s.ctx.driver.c, s.ctx.handle, s.handle, e.handle))
}

// Close gives the stream back; its work goes on.
func (s *Stream) Close() error {
	return s.check("Stream.Close", C.cu_stream_destroy(s.ctx.driver.c, s.ctx.handle, s.handle))
}

// Event marks a place in the work of a stream.
type Event struct {
	ctx    *Ctx
	handle C.cu_handle
}

// Flags of events.
const (
	eventBlockingSync  = 1 // waiting sleeps
	eventDisableTiming = 2
)

// MakeEvent makes an event for waiting. A wait for it sleeps and does not spin.
func (c *Ctx) MakeEvent() (*Event, error) {
	e := &Event{ctx: c}
	flags := C.uint(eventBlockingSync | eventDisableTiming)
	if err := c.driver.check("MakeEvent", C.cu_event(c.driver.c, c.handle, &e.handle, flags)); err != nil {
		return nil, err
	}
	return e, nil
}

// Record places the event behind the stream's work so far.
func (e *Event) Record(s *Stream) error {
	return s.check("Record", C.cu_event_record(e.ctx.driver.c, e.ctx.handle, e.handle, s.handle))
}

// Synchronize waits until the device has got to the last record. It keeps a thread.
func (e *Event) Synchronize() error {
	return e.ctx.driver.check("Event.Synchronize", C.cu_event_synchronize(e.ctx.driver.c, e.ctx.handle, e.handle))
}

// Close gives the event back.
func (e *Event) Close() error {
	return e.ctx.driver.check("Event.Close", C.cu_event_destroy(e.ctx.driver.c, e.ctx.handle, e.handle))
}
