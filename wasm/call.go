package wasm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/wasm/fuel"
)

const (
	slice = 1 << 17 // units of fuel between two looks at the clock: some ten microseconds
	// yield is how often a guest yields while guests occupy all of the runtime's threads. No thread sleeps then that
	// yielding would wake, so it costs next to nothing.
	yield = 100 * time.Microsecond

	// rareYield is how often it yields otherwise: waking a sleeping thread takes some 20 us, also when nothing waits for
	// it. The garbage collector, which stops all threads, need not wait for that: it does so at the next look at the clock.
	rareYield = 4 * time.Millisecond
)

// call is one use of a guest: a request, its set-up or its description. It is the context that the runtime hands to the
// imports. It belongs to one goroutine.
type call struct {
	context.Context
	p        *program
	g        *guest // nil while the module's start function runs
	export   string // what runs now, for messages
	deadline time.Time
	timeout  time.Duration // what set the deadline; 0: the context did
	fuel     int64         // units it may use
	granted  int64         // units handed out so far
	yielded  time.Time
	turn     turn
	host     time.Duration // in imports that take time
	request  bool          // inside edgewise_process: infer is allowed
	nested   bool          // inside infer

	options   edgewise.RunOptions
	s         *step         // whose request it is; nil: it is none
	task      *task         // nil: it is no request
	away      time.Duration // that readers of responses took
	stopped   bool          // by check
	failed    bool
	failure   string // what fail said
	lastError string
	infers    int
	calls     uint          // of imports
	pictures  []latePicture // that are to be made when the step has returned
	source    *rand.ChaCha8 // nil until it is asked for
}

// begin makes a call. The deadline is the earlier of the context's and timeout from now.
func begin(ctx context.Context, p *program, timeout time.Duration, units int64) *call {
	now := time.Now()
	c := &call{
		Context: ctx, p: p, deadline: now.Add(timeout), timeout: timeout, fuel: units, yielded: now,
		turn: turn{slice: shortSlice, began: now},
	}
	if d, ok := ctx.Deadline(); ok && d.Before(c.deadline) {
		c.deadline, c.timeout = d, 0
	}
	return c
}

// ending is what an import panics with to end a guest.
type ending struct{ err *edgewise.Error }

func (s *ending) Error() string { return s.err.Error() }
func (s *ending) Unwrap() error { return s.err }

// end stops the guest that called an import, with an error.
func (c *call) end(kind edgewise.Kind, format string, args ...any) {
	panic(&ending{edgewise.Errorf("wasm.Run", kind, format, args...)})
}

// stop ends a guest that used too much, and did nothing else wrong.
func (c *call) stop(kind edgewise.Kind, format string, args ...any) {
	c.stopped = true
	c.end(kind, format, args...)
}

// refill is the import that a guest calls when its counter, which it passes, is below zero.
func refill(ctx context.Context, stack []uint64) {
	c := ctx.(*call)
	left := int64(int32(stack[0]))
	if left == fuel.TooDeep {
		c.end(edgewise.Guest, "step: %s: calls nest too deep: more than %d, or fewer large ones", c.export, fuel.Depth)
	}
	if c.g != nil {
		c.g.counter.Set(stack[0]) // a loop keeps its counter to itself
	}
	c.check(c.granted - left)
	c.granted += slice - left
	stack[0] = slice
}

// check ends the guest when its time or its fuel is over, and lets other goroutines run now and then: a guest on the
// only thread would otherwise keep the goroutine that cancels it from running.
func (c *call) check(used int64) {
	if used > c.fuel {
		c.stop(edgewise.Guest, "step: %s: stopped after %d units of fuel: at most %d are allowed", c.export, used, c.fuel)
	}
	now := time.Now()
	if since := now.Sub(c.yielded); since >= yield && (since >= rareYield || c.p.crowded()) {
		runtime.Gosched()
		now = time.Now()
		c.yielded = now
	}
	c.expire(now)
	c.share(now)
}

// crowded tells whether guests have all of the runtime's threads.
func (p *program) crowded() bool { return int(p.running.Load()) >= p.threads }

// expire ends the guest when its time is over.
func (c *call) expire(now time.Time) {
	err := c.Context.Err()
	if errors.Is(err, context.DeadlineExceeded) || c.timeout == 0 && now.After(c.deadline) {
		c.stop(edgewise.Deadline, "step: %s: stopped: the request's time is over", c.export)
	}
	if err != nil {
		c.stop(edgewise.KindOf(err), "step: %s: stopped: %w", c.export, err)
	}
	if now.After(c.deadline) {
		c.stop(edgewise.Guest, "step: %s: stopped: it took more than %v", c.export, c.timeout)
	}
}

// used returns the units used so far.
func (c *call) used() int64 {
	if c.g == nil || c.g.counter == nil {
		return c.granted
	}
	return c.granted - int64(int32(c.g.counter.Get()))
}

// invoke runs an export of the guest. An error is an *edgewise.Error; the guest must be dropped then.
func (c *call) invoke(name string, f api.Function, stack []uint64) error {
	outer := c.export
	c.export = name
	err := f.CallWithStack(c, stack)
	if err == nil {
		c.export = outer
		return nil
	}
	return c.explain(err)
}

// explain turns what the runtime says of a trap into an error for the step's user. The trace goes into the step's log.
func (c *call) explain(err error) error {
	if s, ok := errors.AsType[*ending](err); ok {
		return s.err
	}
	if exit, ok := errors.AsType[*sys.ExitError](err); ok {
		return edgewise.Errorf("wasm.Run", edgewise.Guest, "step: %s: it called proc_exit(%d)", c.export, exit.ExitCode())
	}
	if bug, ok := errors.AsType[runtime.Error](err); ok && !strings.HasPrefix(err.Error(), "wasm error: ") {
		c.p.logger.Error("a bug of the box, met by a step", "export", c.export, "error", err)
		return edgewise.Errorf("wasm.Run", edgewise.Internal, "step: %s: a bug of the box: %v", c.export, bug)
	}
	text, trace, _ := strings.Cut(err.Error(), "\nwasm stack trace:\n")
	if _, inner, ok := strings.Cut(text, "wasm error: "); ok {
		text = inner
	}
	if strings.HasPrefix(text, "stack overflow") {
		text = "the call stack is exhausted" // the runtime's limit
	}
	c.p.log(levelDebug, fmt.Sprintf("trap in %s: %s\n%s", c.export, text, strings.ReplaceAll(trace, fuel.HookModule, "")))
	said := ""
	if c.failed { // what the step's language knows of it
		said = ": " + c.failure
	}
	return edgewise.Errorf("wasm.Run", edgewise.Guest, "step: %s: trap: %s%s%s", c.export, text, where(trace), said)
}

// maxFrames is how many functions of a trace an error names. The log has them all.
const maxFrames = 4

// panicking are what functions begin with that Rust calls to panic: the place of the fault is outside.
var panicking = []string{"rust_", "__rust", "_ZN3std", "_ZN4core"}

// where names the innermost functions of a trace: where the trap was, and who called that; each with the line of the
// source, where the module says it.
func where(trace string) string {
	var names []string
	kept := false // the frame that a line of the source belongs to
	for line := range strings.SplitSeq(strings.TrimSpace(trace), "\n") {
		line = strings.TrimSpace(line)
		if at, place, ok := strings.Cut(line, ": "); ok && strings.HasPrefix(at, "0x") {
			if kept {
				names[len(names)-1] += " (" + place + ")"
			}
			continue
		}
		name := frame(line)
		kept = name != "" && len(names) < maxFrames &&
			!slices.ContainsFunc(panicking, func(p string) bool { return strings.HasPrefix(name, p) })
		if kept {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " in function " + strings.Join(names, ", called by ")
}

// frame names the function of a line of a trace: by its name, or by its index in the module as it was uploaded, which
// is one less than in the rewritten one.
func frame(line string) string {
	name, _, _ := strings.Cut(line, "(")
	name = strings.TrimPrefix(name, ".")
	if name == "" {
		return ""
	}
	if index, err := strconv.Atoi(strings.TrimPrefix(name, "$")); err == nil && name[0] == '$' {
		name = strconv.Itoa(index - 1)
	}
	return name
}
