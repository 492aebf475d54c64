package modelconfig

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise/pattern"
)

// parameter says which values a backend parameter may have.
type parameter struct {
	want  string // for messages
	valid func(string) bool
}

// Parameters of the appliance's own that services read.
const (
	MemoryParameter = "memory_bytes"      // what a loaded version takes, instead of the box's estimate
	SwapParameter   = "swap_without_room" // SwapRefuse or SwapGap, instead of the box's choice
	SwapRefuse      = "refuse"
	SwapGap         = "gap"

	// PrecisionParameter is how much the outputs of a version may differ that asks for less than FP32, as a part of the largest
	// number, or PrecisionUnchecked
	PrecisionParameter = "precision_tolerance"
	PrecisionUnchecked = "off"

	ResidencyParameter = "residency" // ResidencyAlways for a version whose memory is never given to others
	ResidencyAlways    = "always"
	ResidencyOnDemand  = "on_demand"
)

// backendParameters are those that the ONNX backend, the scheduler and the box itself obey. Other names are data of the
// user, which clients read.
var backendParameters = map[string]parameter{
	"intra_op_thread_count": threads,
	"inter_op_thread_count": threads,
	"execution_mode":        oneOf("0", "1"),
	"enable_mem_arena":      oneOf("0", "1"),
	"enable_mem_pattern":    oneOf("0", "1"),
	"memory.enable_memory_arena_shrinkage": {
		"devices such as \"cpu:0\", separated by ';'",
		pattern.New(`^cpu:0(;cpu:0)*$`).MatchString,
	},
	"max_queue_delay":    oneOf("auto"),
	MemoryParameter:      {"a number of bytes", number(math.MaxInt64)},
	SwapParameter:        oneOf(SwapRefuse, SwapGap),
	ResidencyParameter:   oneOf(ResidencyAlways, ResidencyOnDemand),
	PrecisionParameter:   {"\"off\", or a number above 0 up to 1", part},
	"execution_profile":  oneOf("adaptive", "throughput", "latency"),         // see Model.Concurrency
	"gpu_pipeline_slots": {"a number of batches from 1 to 8", between(1, 8)}, // see Model.PipelineSlots
	"gpu_batch_buckets": {
		"\"off\", or batch sizes separated by ','",
		pattern.New(`^(off|[0-9]{1,6}([ ,]+[0-9]{1,6})*)$`).MatchString,
	},
	"gpu_memory_bytes": {"a number of bytes", number(math.MaxInt64)},
	"gpu_pictures":     oneOf("on", "off"),
	"isolation": {"none, process, or group: and a name of 1 to 64 letters, digits, " +
		"'.', '_' or '-'", pattern.New(`^(none|process|group:[A-Za-z0-9._-]{1,64})$`).MatchString},
	"session.set_denormal_as_zero":                  oneOf("0", "1"),
	"session.disable_quant_qdq":                     oneOf("0", "1"),
	"session.disable_double_qdq_remover":            oneOf("0", "1"),
	"session.enable_quant_qdq_cleanup":              oneOf("0", "1"),
	"session.qdqisint8allowed":                      oneOf("0", "1"),
	"session.x64quantprecision":                     oneOf("0", "1"),
	"session.dynamic_block_base":                    {"a number from 0 to 1024", number(1024)},
	"session.disable_prepacking":                    oneOf("0", "1"),
	"session.intra_op.allow_spinning":               oneOf("0", "1"),
	"session.inter_op.allow_spinning":               oneOf("0", "1"),
	"session.force_spinning_stop":                   oneOf("0", "1"),
	"session.allow_released_opsets_only":            oneOf("0", "1"),
	"session.disable_cpu_ep_fallback":               oneOf("0", "1"),
	"session.disable_aot_function_inlining":         oneOf("0", "1"),
	"session.use_device_allocator_for_initializers": oneOf("0", "1"),
}

// part accepts a part of something, or none at all.
func part(text string) bool {
	share, err := strconv.ParseFloat(text, 64)
	return text == PrecisionUnchecked || err == nil && share > 0 && share <= 1
}

// between accepts a whole number within bounds.
func between(least, most int) func(string) bool {
	return func(text string) bool {
		n, err := strconv.Atoi(text)
		return err == nil && least <= n && n <= most
	}
}

var threads = parameter{"a number of threads from 0 to " + strconv.Itoa(MaxThreads), number(MaxThreads)}

func oneOf(values ...string) parameter {
	return parameter{
		"one of " + strings.Join(values, ", "), func(text string) bool { return slices.Contains(values, text) },
	}
}

func number(most uint64) func(string) bool {
	return func(text string) bool {
		n, err := strconv.ParseUint(text, 10, 64)
		return err == nil && n <= most
	}
}

// parameters checks the parameters that the backend obeys. Session configuration entries are a closed list: some of
// ONNX Runtime's name files to read or to write.
func (c *checker) parameters() {
	for _, key := range sorted(c.m.Parameters) {
		value := c.m.Parameters[key].StringValue
		p, known := backendParameters[key]
		switch {
		case known && !p.valid(value):
			c.problem("parameters: %s: want %s, got %.64q", key, p.want, value)
		case !known && (strings.HasPrefix(key, "session.") || strings.HasPrefix(key, "ep.")):
			c.problem("parameters: %.64q is not on the list of session configuration entries that a model may set", key)
		}
	}
	if o := c.m.Optimization; o != nil && o.Graph != nil && (o.Graph.Level < -1 || o.Graph.Level > 2) {
		c.problem("optimization: graph: level: want -1 (basic), 0 (all), 1 (extended) or 2 (none), got %d", o.Graph.Level)
	}
}
