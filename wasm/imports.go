package wasm

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/edgewise-ai/edgewise"
)

// hostFunctions are the imports that are no kernels.
func hostFunctions() []hostFunction {
	return []hostFunction{
		{"log", "iii:", importLog},
		{"fail", "ii:", importFail},
		{"parameter", "iiii:i", importParameter},
		{"infer", "iii:i", importInfer},
		{"emit", "i:i", importEmit},
		{"last_error", "ii:i", func(a arguments) { a.give("dst", 0, a.c.lastError) }},
	}
}

func importLog(a arguments) {
	text := a.bytes("ptr", 1)
	a.c.p.log(level(a.u32(0)), string(text[:min(len(text), MaxLogBytes)]))
}

func importFail(a arguments) {
	text := a.bytes("ptr", 0)
	a.c.failed, a.c.failure = true, clean(string(text[:min(len(text), MaxFailBytes)]), MaxFailBytes)
}

func importParameter(a arguments) {
	name := a.bytes("name", 0)
	if len(name) <= MaxParamName {
		if text, ok := a.c.parameter(string(name)); ok {
			a.give("dst", 2, text)
			return
		}
	}
	a.result(-1)
}

// parameter looks in the request first, then in the model's configuration.
func (c *call) parameter(name string) (string, bool) {
	if v, ok := c.options.Parameters[name]; ok {
		return parameterText(v), true
	}
	v, ok := c.p.model[name]
	return v.StringValue, ok
}

func parameterText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case bool:
		return strconv.FormatBool(v)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return ""
}

// importInfer runs another model. It is refused with a reason that the step can read, unless the step points outside
// its memory or its own time is over: that stops it.
func importInfer(a arguments) {
	name := a.bytes("model", 0)
	if reason := a.mayInfer(name); reason != "" {
		a.c.lastError = reason
		a.result(0)
		return
	}
	inputs, err := readList(whole(a.mem), a.u32(2), "step: infer: input")
	if err != nil {
		panic(&ending{err})
	}
	c := a.c
	c.infers++
	c.nested = true
	start := time.Now()
	c.rest()
	pointer, err2 := a.infer(string(name), inputs)
	c.resume()
	c.host += time.Since(start)
	c.nested = false
	c.check(c.used())
	if err2 != nil {
		c.lastError, pointer = err2.Error(), 0
	}
	a.result(int32(pointer))
}

// mayInfer says why the step may not call a model, "" when it may.
func (a arguments) mayInfer(name []byte) string {
	c := a.c
	switch {
	case !c.request:
		return "infer: only edgewise_process may call it"
	case c.nested:
		return "infer: it is running already: edgewise_alloc must not call it"
	case c.options.Trial:
		return "infer: this is a trial with made-up inputs: it calls no other model"
	case len(name) > edgewise.MaxNameBytes || !slices.Contains(c.p.settings.models, string(name)):
		return "infer: model " + strconv.Quote(clean(string(name), edgewise.MaxNameBytes)) +
			" is not on the list of the parameter " + strconv.Quote(ParamModels)
	case string(name) == c.p.id.Name || slices.Contains(c.options.Callers, string(name)):
		return "infer: model " + strconv.Quote(string(name)) + " waits for this answer already: steps cannot call each other in a circle"
	case c.p.config.Infer == nil:
		return "infer: there is no other model here"
	case c.infers >= c.p.settings.infers:
		return "infer: more than " + strconv.Itoa(c.p.settings.infers) + " calls in one request, which is the parameter " +
			strconv.Quote(ParamInfers)
	case len(c.options.Callers) >= MaxInferDepth:
		return "infer: more than " + strconv.Itoa(MaxInferDepth) + " steps call each other"
	}
	return ""
}

// infer runs the model and copies its outputs into memory that the guest provides.
func (a arguments) infer(name string, inputs []edgewise.Tensor) (uint32, error) {
	c := a.c
	ctx, cancel := context.WithDeadline(c.Context, c.deadline)
	defer cancel()
	response, err := c.p.config.Infer.Infer(ctx, &edgewise.Request{
		Model: edgewise.ModelID{Name: name}, Inputs: inputs,
		Callers: append(slices.Clip(c.options.Callers), c.p.id.Name),
	})
	if err != nil {
		return 0, err
	}
	defer response.Release()
	size := 0
	for i := range response.Outputs {
		size += len(response.Outputs[i].Data)
	}
	if size > MaxInferBytes {
		return 0, edgewise.Errorf("wasm.infer", edgewise.TooLarge,
			"infer: model %q answered with %d bytes: at most %d are allowed", name, size, MaxInferBytes)
	}
	// A function of its own: the guest may be inside edgewise_alloc further up.
	pointer, err := c.writeList(c.g.module.ExportedFunction(exportAlloc), response.Outputs)
	if broken, ok := errors.AsType[*edgewise.Error](err); ok {
		panic(&ending{broken})
	}
	return pointer, err
}

// hostFunction is one import that a step may have.
type hostFunction struct {
	name string
	sign signature
	call func(arguments)
}

// hostModules returns everything that a step can import, by module.
func hostModules() map[string][]hostFunction {
	return map[string][]hostFunction{hostModule: append(hostFunctions(), kernels()...), wasiModule: wasiFunctions()}
}

// lookup returns the type of an import.
func lookup(functions []hostFunction, name string) (signature, bool) {
	for _, f := range functions {
		if f.name == name {
			return f.sign, true
		}
	}
	return ":", false
}

// arguments are those that a guest passed to an import. A guest that points outside its memory is stopped when they are read.
type arguments struct {
	c     *call
	name  string // of the import
	stack []uint64
	mem   api.Memory
}

// callsBetweenLooks is how many imports a guest may call between two looks at the clock. Its own fuel says nothing of
// the time they take: a loop that does little but call them would be looked at after a hundred thousand calls.
const callsBetweenLooks = 64

// bind makes what the runtime calls.
func (f hostFunction) bind() api.GoModuleFunction {
	return api.GoModuleFunc(func(ctx context.Context, mod api.Module, stack []uint64) {
		c := ctx.(*call)
		if c.calls++; c.calls%callsBetweenLooks == 0 {
			c.check(c.used())
		}
		f.call(arguments{c, f.name, stack, mod.Memory()})
	})
}

func (a arguments) u32(i int) uint32  { return uint32(a.stack[i]) }
func (a arguments) f32(i int) float32 { return api.DecodeF32(a.stack[i]) }

// result sets what the import returns.
func (a arguments) result(v int32) { a.stack[0] = uint64(uint32(v)) }

// view returns size bytes of the guest's memory. what names the argument.
func (a arguments) view(what string, pointer uint32, size uint64) []byte {
	most := uint64(a.mem.Size())
	if size > most || uint64(pointer) > most-size {
		a.c.end(edgewise.Guest, "step: import %q: argument %q: %d bytes at %d leave the memory, which has %d", a.name, what, size, pointer, most)
	}
	view, _ := a.mem.Read(pointer, uint32(size))
	return view
}

// bytes returns the bytes that arguments i (pointer) and i+1 (length) name.
func (a arguments) bytes(what string, i int) []byte {
	return a.view(what, a.u32(i), uint64(a.u32(i+1)))
}

// give writes as much of text as there is room for into arguments i (pointer) and i+1 (room), and returns its length.
func (a arguments) give(what string, i int, text string) {
	room := min(uint64(a.u32(i+1)), uint64(len(text)))
	copy(a.view(what, a.u32(i), room), text)
	a.result(int32(len(text)))
}
