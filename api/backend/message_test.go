package backend

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
)

var someTensors = []Tensor{
	{"x", edgewise.FP32, edgewise.Shape{1, 2}, 64, 8},
	{"empty", edgewise.Int8, edgewise.Shape{0}, 0, 0},
	{"scalar", edgewise.Bool, edgewise.Shape{}, 128, 1},
}

var someRequest = Request{
	ID: "r", Correlation: 9, CorrelationText: "c", Flags: SequenceStart, Priority: 2, Timeout: time.Second,
	Parameters: map[string]any{"b": true, "f": 1.5, "i": int64(-3), "t": "text"}, Wanted: []string{"y"},
	Inputs: someTensors,
}

var someAnswer = Answer{
	Final: true, Error: &Error{NotFound, "why"}, Parameters: map[string]any{"a": "b"}, Outputs: someTensors,
}

// frames are one of each kind that has a form of its own, and how it is read.
var frames = []struct {
	name   string
	value  any
	encode func() ([]byte, error)
	decode func(body []byte) (any, error)
}{
	{
		"run", &Run{Run: 1, Joined: true, Calls: []RunCall{{2, someRequest}, {3, Request{}}}},
		func() ([]byte, error) {
			return appendRun(nil, &Run{Run: 1, Joined: true, Calls: []RunCall{{2, someRequest}, {3, Request{}}}})
		},
		func(b []byte) (any, error) { return decodeRun(b) },
	},
	{
		"reply", &Reply{4, "m", 5, someAnswer},
		func() ([]byte, error) { return appendReply(nil, &Reply{4, "m", 5, someAnswer}) },
		func(b []byte) (any, error) { return decodeReply(b) },
	},
	{
		"response", &response{6, someAnswer},
		func() ([]byte, error) { return appendResponse(nil, &response{6, someAnswer}) },
		func(b []byte) (any, error) { return decodeResponse(b) },
	},
	{
		"exec", &Exec{7, 8, true, "m", Latest, someRequest},
		func() ([]byte, error) { return appendExec(nil, &Exec{7, 8, true, "m", Latest, someRequest}) },
		func(b []byte) (any, error) { return decodeExec(b) },
	},
}

func TestEachFrameIsReadAsItWasWritten(t *testing.T) {
	for _, f := range frames {
		frame, err := f.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.decode(frame[5:])
		if err != nil || !reflect.DeepEqual(got, f.value) {
			t.Errorf("%s: got %+v, %v, want %+v", f.name, got, err, f.value)
		}
	}
}

func TestAFrameThatEndsEarlyOrLateIsRefused(t *testing.T) {
	for _, f := range frames {
		frame, err := f.encode()
		if err != nil {
			t.Fatal(err)
		}
		body := frame[5:]
		for n := range body {
			if _, err := f.decode(body[:n]); !errors.Is(err, ErrProtocol) {
				t.Errorf("%s of %d bytes of %d: got %v, want ErrProtocol", f.name, n, len(body), err)
			}
		}
		if _, err := f.decode(append(bytes.Clone(body), 0)); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s with a byte behind it: got %v, want ErrProtocol", f.name, err)
		}
	}
}

func TestAMessageThatIsLongerThanAFrameIsNotSent(t *testing.T) {
	long := Request{Parameters: map[string]any{"x": string(make([]byte, MaxFrame))}}
	if _, err := appendRun(nil, &Run{Calls: []RunCall{{1, long}}}); err == nil {
		t.Error("got no error")
	}
}

// FuzzDecode reads any bytes as each kind of frame. What can be read can be written and read again.
func FuzzDecode(f *testing.F) {
	for i, frame := range frames {
		body, err := frame.encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(i, body[5:])
	}
	m, err := newMemory("fuzz", 1<<16, false)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, kind int, body []byte) {
		if kind < 0 || kind >= len(frames) {
			return
		}
		v, err := frames[kind].decode(body)
		if err != nil {
			return
		}
		for _, tensor := range tensorsOf(v) {
			if got, err := m.tensor(&tensor); err == nil && got.Check() != nil {
				t.Errorf("%+v was accepted: %v", tensor, got.Check())
			}
		}
	})
}

func tensorsOf(v any) []Tensor {
	switch v := v.(type) {
	case *Run:
		var all []Tensor
		for _, c := range v.Calls {
			all = append(all, c.Inputs...)
		}
		return all
	case *Reply:
		return v.Outputs
	case *response:
		return v.Outputs
	case *Exec:
		return v.Inputs
	}
	return nil
}
