package wasm

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// hostFunctions are the imports that are no kernels.
func hostFunctions() []hostFunction {
	return []hostFunction{
		{"log", "iii:", importLog},
		{"fail", "ii:", importFail},
		{"parameter", "iiii:i", importParameter},
		{"infer", "iii:i", importInfer},
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
	if len(name) > MaxParamName {
		a.result(-1)
		return
	}
	text, ok := a.c.parameter(string(name))
	if !ok {
		a.result(-1)
		return
	}
	a.give("dst", 2, text)
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
	var broken *edgewise.Error
	if errors.As(err, &broken) {
		panic(&ending{broken})
	}
	return pointer, err
}
