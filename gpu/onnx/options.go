package onnx

import (
	"runtime"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
)

// sessionOptions reads the parameters that Triton's ONNX Runtime backend knows, by their names. Without any, a session
// runs each request on one thread, without spinning: the scheduler's lanes keep the cores busy.
func sessionOptions(m *edgewise.Model) (ort.Options, error) {
	p := parameters{model: m}
	o := ort.Options{
		IntraThreads: p.threads("intra_op_thread_count"),
		InterThreads: p.threads("inter_op_thread_count"),
		Parallel:     p.number("execution_mode", 0) == 1,
		NoArena:      p.number("enable_mem_arena", 1) == 0,
		NoMemPattern: p.number("enable_mem_pattern", 1) == 0,
	}
	if m.Optimization != nil && m.Optimization.Graph != nil {
		o.Optimization = int(m.Optimization.Graph.Level)
	}
	o.ConfigEntries, o.RunEntries = map[string]string{}, map[string]string{}
	if shrink, ok := m.Parameters[arenaShrinkage]; ok {
		o.RunEntries[arenaShrinkage] = shrink.StringValue
	}
	for key, value := range m.Parameters {
		switch {
		case configEntries[key]:
			o.ConfigEntries[key] = value.StringValue
		case strings.HasPrefix(key, "session."):
			return o, edgewise.Errorf("onnx.Load", edgewise.Unsupported, "model %q: parameter %q: this session configuration entry is not on the list of those a model may set", m.Name, key)
		}
	}
	return o, p.err
}

// arenaShrinkage gives memory back to the system after each run: "cpu:0".
const arenaShrinkage = "memory.enable_memory_arena_shrinkage"

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

// threads reads a number of threads: 1 when it is not set, and 0 stands for one for each core, as in Triton.
func (p *parameters) threads(key string) int {
	n := p.number(key, 1)
	if n == 0 {
		return runtime.NumCPU()
	}
	return n
}

func (p *parameters) number(key string, otherwise int) int {
	value, ok := p.model.Parameters[key]
	if !ok || value.StringValue == "" {
		return otherwise
	}
	n, err := strconv.Atoi(value.StringValue)
	if err != nil && p.err == nil {
		p.err = edgewise.Errorf("onnx.Load", edgewise.Invalid, "model %q: parameter %q: want a whole number, got %q", p.model.Name, key, value.StringValue)
	}
	return n
}
