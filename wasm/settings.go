package wasm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/wasm/fuel"
)

// settings are the parameters of a model that this backend obeys. All others are for the step itself.
type settings struct {
	stateful bool
	policy   policy
	models   []string // that infer may call
	infers   int      // calls of infer in one request
	fuel     int64    // units of one run
	memory   int64    // bytes of a guest's memory
}

// policy says what becomes of a step whose guest trapped.
type policy uint8

const (
	reload policy = iota // the guest is replaced, after a pause when several in a row have failed
	halt                 // nothing runs any more until the version is loaded again
	bypass               // as reload, and the request is answered with its inputs
)

// Names of the parameters.
const (
	ParamStateful = "stateful"            // "true" or "false"
	ParamPolicy   = "failure_policy"      // "reload", "fail" or "bypass"
	ParamModels   = "infer_models"        // names, separated by commas
	ParamInfers   = "infer_calls"         // calls of infer in one request
	ParamFuel     = "max_fuel"            // units of one run
	ParamMemory   = "max_memory_mebibyte" // of a guest
)

// maxModels bounds the list of models that a step may call.
const maxModels = 64

// parseSettings reads the parameters and reports everything that is wrong with them.
func parseSettings(m *edgewise.Model, c Config) (settings, error) {
	s := settings{memory: c.MaxMemory}
	var problems []string
	problem := func(name, want string) {
		problems = append(problems, fmt.Sprintf("parameter %q: want %s, got %.64q", name, want, m.Parameters[name].StringValue))
	}
	value := func(name string) (string, bool) {
		v, ok := m.Parameters[name]
		return v.StringValue, ok
	}
	if v, ok := value(ParamStateful); ok {
		if v != "true" && v != "false" {
			problem(ParamStateful, "true or false")
		}
		s.stateful = v == "true"
	}
	if v, ok := value(ParamPolicy); ok {
		i := slices.Index([]string{"reload", "fail", "bypass"}, v)
		if i < 0 {
			problem(ParamPolicy, "reload, fail or bypass")
		}
		s.policy = policy(max(i, 0))
	}
	if v, ok := value(ParamModels); ok {
		s.models = strings.Split(v, ",")
		for i, name := range s.models {
			s.models[i] = strings.TrimSpace(name)
			if edgewise.CheckName(s.models[i]) != nil || len(s.models) > maxModels {
				problem(ParamModels, fmt.Sprintf("at most %d names of models, separated by commas", maxModels))
				break
			}
		}
	}
	number := func(name string, otherwise, most int64, want string) int64 {
		v, ok := value(name)
		if !ok {
			return otherwise
		}
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 1 || n > most {
			problem(name, want)
		}
		return n
	}
	s.infers = int(number(ParamInfers, DefaultInfers, MaxInfers, fmt.Sprintf("a number of calls from 1 to %d", MaxInfers)))
	s.fuel = number(ParamFuel, never, never, "a number of units from 1")
	most := c.MaxMemory >> 20
	want := fmt.Sprintf("a number of MiB from 1 to %d, which is what the box allows", most)
	if _, ok := value(ParamMemory); ok {
		s.memory = number(ParamMemory, 0, most, want) << 20 / fuel.PageSize * fuel.PageSize
	}
	if len(problems) == 0 && s.policy == bypass {
		problems = bypassProblems(m)
	}
	if len(problems) > 0 {
		return s, edgewise.Errorf("wasm.Inspect", edgewise.Invalid, "step: %s", strings.Join(problems, "; "))
	}
	return s, nil
}

// bypassProblems says why a model's inputs cannot stand for its outputs. A model whose tensors are not known yet is
// looked at again when it is loaded.
func bypassProblems(m *edgewise.Model) []string {
	if len(m.Input) == 0 || len(m.Output) == 0 {
		return nil
	}
	var problems []string
	for i, out := range m.Output {
		if i >= len(m.Input) {
			return append(problems, fmt.Sprintf("failure_policy bypass: there is no input for output %q: want as many inputs "+
				"as outputs at least", out.Name))
		}
		in := m.Input[i]
		if in.DataType != out.DataType || !in.Dims.Equal(out.Dims) || in.Optional || in.Reshape != nil || out.Reshape != nil {
			problems = append(problems, fmt.Sprintf("failure_policy bypass: output %q is %v%v and input %q, which would "+
				"stand for it, is %v%v", out.Name, out.DataType, out.Dims, in.Name, in.DataType, in.Dims))
		}
	}
	return problems
}
