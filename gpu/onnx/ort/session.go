package ort

/*
#include <stdlib.h>
#include "ort.h"
*/
import "C"

import (
	"reflect"
	"unsafe"

	ortgo "github.com/yalue/onnxruntime_go"

	"github.com/edgewise-ai/edgewise"
)

// Options configure a session. The zero value is sequential execution on one thread with full graph optimisation.
type Options struct {
	IntraThreads  int               // threads inside an operator; 0: one
	InterThreads  int               // threads across operators, used when Parallel
	Parallel      bool              // run independent operators at the same time
	Spin          bool              // let waiting threads spin: lower latency for a busy core
	Rest          bool              // but only while something runs
	Nice          int               // niceness of the session's own threads, 0 to 19; 0: that of the process
	NoArena       bool              // allocate without an arena
	NoMemPattern  bool              // do not plan memory from the first run's shapes
	Optimization  int               // graph optimisation in Triton's numbers: 0 all, -1 basic, 1 extended, 2 none
	ConfigEntries map[string]string // session configuration entries by ONNX Runtime's names
	RunEntries    map[string]string // run configuration entries, the same for every run
	Providers     []Provider        // first choice first; the CPU follows them
}

// Session is a loaded model. Run is safe for concurrent use.
type Session struct {
	lib     *Library
	binding *ortgo.DynamicAdvancedSession
	handle  unsafe.Pointer // OrtSession*
	inputs  map[string]*C.char
	outputs map[string]*C.char
	calls   chan *call // idle calls, for reuse
	forms   forms
	marks   marks
	proof   proof

	runOptions map[string]string
	effective  []string
	lost       []string // parts of messages of a device that runs nothing any more
}

// ProviderOptions returns all options of the session's providers as these read them, a line for each provider.
func (s *Session) ProviderOptions() []string { return s.effective }

var _ edgewise.Instance = (*Session)(nil)

// idleCalls bounds how many idle calls a session keeps.
const idleCalls = 64

// NewSession loads the model file at path. inputs and outputs are the names that Run may use. Errors: Invalid when
// ONNX Runtime refuses the model, Internal otherwise.
func (l *Library) NewSession(path string, inputs, outputs []string, o Options) (*Session, error) {
	options, err := o.make()
	if err != nil {
		return nil, edgewise.Errorf("ort.NewSession", edgewise.Invalid, "session options: %w", err)
	}
	defer func() { _ = options.Destroy() }()
	var effective, lost []string
	for _, p := range o.Providers {
		text, err := p.appendTo(l, options)
		if err != nil {
			return nil, err
		}
		effective, lost = append(effective, p.Kind.String()+": "+text), append(lost, p.Lost...)
	}
	binding, err := o.open(path, options, l.manner)
	if err != nil {
		return nil, edgewise.Errorf("ort.NewSession", edgewise.Invalid, "ONNX Runtime refuses the model: %w", err)
	}
	return &Session{
		lib: l, binding: binding, handle: field(binding, "s", "ortSession"),
		inputs: cNames(inputs), outputs: cNames(outputs), calls: make(chan *call, idleCalls), marks: newMarks(),
		runOptions: o.RunEntries, effective: effective, lost: lost,
	}, nil
}

// open loads the file. Loading optimizes the model, which may take a core for seconds. A session with threads of its
// own is not loaded in the background, because they would stay there.
func (o Options) open(path string, options *ortgo.SessionOptions, m manner) (
	binding *ortgo.DynamicAdvancedSession, err error,
) {
	load := func() error {
		binding, err = ortgo.NewDynamicAdvancedSession(path, nil, nil, options)
		return err
	}
	switch {
	case o.Nice > 0:
		return binding, onNiceThread(o.Nice, load)
	case max(o.IntraThreads, o.InterThreads) > 1 || len(o.Providers) > 0:
		return binding, load()
	}
	return binding, background(load, m)
}

// Close gives the session's memory back. No Run is in progress and no Result is unreleased.
func (s *Session) Close() error {
	for {
		select {
		case c := <-s.calls:
			c.destroy(s.lib)
			continue
		default:
		}
		break
	}
	freeNames(s.inputs)
	freeNames(s.outputs)
	if err := s.binding.Destroy(); err != nil {
		return edgewise.Errorf("ort.Close", edgewise.Internal, "closing an ONNX Runtime session: %w", err)
	}
	s.lib.trimmer.ran()
	return nil
}

// field follows unexported pointer fields of the binding's structs by name; the binding's version is pinned, and every
// test that runs a model fails when a name has changed.
func field(of any, names ...string) unsafe.Pointer {
	v := reflect.ValueOf(of)
	for _, name := range names {
		v = v.Elem().FieldByName(name)
	}
	return v.UnsafePointer()
}

func cNames(names []string) map[string]*C.char {
	m := make(map[string]*C.char, len(names))
	for _, name := range names {
		m[name] = C.CString(name)
	}
	return m
}

func freeNames(m map[string]*C.char) {
	for _, name := range m {
		C.free(unsafe.Pointer(name))
	}
}

// make turns Options into the binding's. The caller destroys the result.
func (o Options) make() (*ortgo.SessionOptions, error) {
	options, err := ortgo.NewSessionOptions()
	if err != nil {
		return nil, err
	}
	if err := o.apply(options); err != nil {
		_ = options.Destroy()
		return nil, err
	}
	return options, nil
}

func (o Options) apply(to *ortgo.SessionOptions) error {
	mode := ortgo.ExecutionMode(ortgo.ExecutionModeSequential)
	if o.Parallel {
		mode = ortgo.ExecutionModeParallel
	}
	digit := map[bool]string{true: "1", false: "0"}
	spin := digit[o.Spin]
	steps := []func() error{
		func() error { return to.SetExecutionMode(mode) },
		func() error { return to.SetIntraOpNumThreads(max(o.IntraThreads, 1)) },
		func() error { return to.SetInterOpNumThreads(max(o.InterThreads, 1)) },
		func() error { return to.SetCpuMemArena(!o.NoArena) },
		func() error { return to.SetMemPattern(!o.NoMemPattern) },
		func() error { return to.SetGraphOptimizationLevel(level(o.Optimization)) },
		func() error { return to.AddSessionConfigEntry("session.intra_op.allow_spinning", spin) },
		func() error { return to.AddSessionConfigEntry("session.inter_op.allow_spinning", spin) },
		func() error { return to.AddSessionConfigEntry("session.force_spinning_stop", digit[o.Rest]) },
		func() error { return to.AddSessionConfigEntry("session.load_model_format", "ONNX") },
		func() error { return to.AddSessionConfigEntry(sharedArena, digit[!o.NoArena && len(o.Providers) == 0]) },
	}
	for key, value := range o.ConfigEntries {
		steps = append(steps, func() error { return to.AddSessionConfigEntry(key, value) })
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func level(triton int) ortgo.GraphOptimizationLevel {
	switch triton {
	case -1:
		return ortgo.GraphOptimizationLevelEnableBasic
	case 1:
		return ortgo.GraphOptimizationLevelEnableExtended
	case 2:
		return ortgo.GraphOptimizationLevelDisableAll
	}
	return ortgo.GraphOptimizationLevelEnableAll
}
