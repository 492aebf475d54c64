package onnx

import (
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
)

// sessionOptions reads the parameters that Triton's ONNX Runtime backend knows, by their names. Without any, a session
// runs each request on one thread, without spinning: concurrent runs keep the cores busy. A run never has more
// threads than there are cores for it.
func sessionOptions(m *edgewise.Model, cores int) (ort.Options, error) {
	p := parameters{model: m}
	for _, key := range []string{"intra_op_thread_count", "inter_op_thread_count", "execution_mode"} {
		p.number(key, 0)
	}
	c := m.Concurrency(cores)
	o := ort.Options{
		IntraThreads: c.Intra,
		InterThreads: c.Inter,
		Parallel:     c.Parallel,
		Spin:         c.Spin,
		NoArena:      p.number("enable_mem_arena", 1) == 0,
		NoMemPattern: p.number("enable_mem_pattern", 1) == 0,
	}
	if m.Optimization != nil && m.Optimization.Graph != nil {
		o.Optimization = int(m.Optimization.Graph.Level)
	}
	o.ConfigEntries, o.RunEntries = map[string]string{}, map[string]string{}
	if shrink, ok := m.Parameters[ort.ShrinkArena]; ok {
		o.RunEntries[ort.ShrinkArena] = shrink.StringValue
	}
	for key, value := range m.Parameters {
		switch {
		case configEntries[key]:
			o.ConfigEntries[key] = value.StringValue
		case strings.HasPrefix(key, "session."):
			return o, edgewise.Errorf("onnx.Load", edgewise.Unsupported,
				"model %q: parameter %q: this session configuration entry is not on the list of those a model may set", m.Name, key)
		}
	}
	return o, p.err
}

// configEntries are the session configuration entries that a model may set: those that change how it computes. Entries
// that name files or folders would let a model read outside its own folder.
var configEntries = map[string]bool{
	"session.set_denormal_as_zero":                  true,
	"session.disable_quant_qdq":                     true,
	"session.disable_double_qdq_remover":            true,
	"session.enable_quant_qdq_cleanup":              true,
	"session.qdqisint8allowed":                      true,
	"session.x64quantprecision":                     true,
	"session.dynamic_block_base":                    true,
	"session.disable_prepacking":                    true,
	"session.intra_op.allow_spinning":               true,
	"session.inter_op.allow_spinning":               true,
	"session.force_spinning_stop":                   true,
	"session.use_device_allocator_for_initializers": true,
	"session.allow_released_opsets_only":            true,
	"session.disable_cpu_ep_fallback":               true,
	"session.disable_aot_function_inlining":         true,
}

// parameters reads numbers and keeps the first error.
type parameters struct {
	model *edgewise.Model
	err   error
}

func (p *parameters) number(key string, otherwise int) int {
	value, ok := p.model.Parameters[key]
	if !ok || value.StringValue == "" {
		return otherwise
	}
	n, err := strconv.Atoi(value.StringValue)
	if err != nil && p.err == nil {
		p.err = edgewise.Errorf("onnx.Load", edgewise.Invalid, "model %q: parameter %q: want a whole number, got %q",
			p.model.Name, key, value.StringValue)
	}
	return n
}
