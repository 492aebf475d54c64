package wasm

import (
	"fmt"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/wasm/fuel"
)

// Names of the ABI.
const (
	hostModule     = "edgewise_v1"
	wasiModule     = "wasi_snapshot_preview1"
	exportMemory   = "memory"
	exportStep     = "edgewise_step_v1"
	exportAlloc    = "edgewise_alloc"
	exportProcess  = "edgewise_process"
	exportReset    = "edgewise_reset"
	exportDescribe = "edgewise_describe"
	exportReactor  = "_initialize"
)

// Bounds of the ABI.
const (
	MaxTensors    = 256      // tensors of a list
	MaxNameBytes  = 512      // of a tensor's or a model's name
	MaxLogBytes   = 4 << 10  // of one line; the rest is cut
	MaxLogLines   = 100      // a second, of one version; the rest is counted
	MaxFailBytes  = 4 << 10  // of the message of fail; the rest is cut
	MaxParamName  = 256      // bytes of a parameter's name
	MaxDescribe   = 64 << 10 // bytes of the description
	MaxInfers     = 65_536   // calls of infer in one request that a model may ask for
	DefaultInfers = 64       // and those that it may make when it does not ask
	MaxInferDepth = 4        // steps that call each other
	MaxInferBytes = 64 << 20 // of the outputs of one call of infer
)

const (
	listHeader   = 8  // bytes of a list before its tensors
	tensorRecord = 32 // bytes of a tensor in a list
	dataAlign    = 64 // of the data of inputs
)

// signature is a type as a few letters: i is i32, I is i64, f is f32; params, a colon, results.
type signature string

func (s signature) funcType() fuel.FuncType {
	letters := strings.NewReplacer("i", "\x7f", "I", "\x7e", "f", "\x7d")
	params, results, _ := strings.Cut(string(s), ":")
	return fuel.FuncType{Params: letters.Replace(params), Results: letters.Replace(results)}
}

// exported is what a module must or may export.
var exported = []struct {
	name     string
	sign     signature
	required bool
}{
	{exportStep, ":", true},
	{exportAlloc, "ii:i", true},
	{exportProcess, "i:i", true},
	{exportReset, ":", false},
	{exportDescribe, ":i", false},
	{exportReactor, ":", false},
}

// checkModule holds a module's imports and exports against the ABI and reports everything that is wrong.
func checkModule(m *fuel.Module) error {
	var problems []string
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if m.Export(exportMemory, fuel.Memory) == nil || !m.Memory {
		problem("export %q is missing: want a memory", exportMemory)
	}
	for _, e := range exported {
		x := m.Export(e.name, fuel.Function)
		want := e.sign.funcType()
		switch {
		case x == nil && e.required:
			problem("export %q is missing: want a func of type %v", e.name, want)
		case x != nil && x.Type != want:
			problem("export %q has the type %v: want %v", e.name, x.Type, want)
		}
	}
	for _, i := range m.Imports {
		if text := checkImport(i); text != "" {
			problem("%s", text)
		}
	}
	if len(problems) == 0 {
		return nil
	}
	if len(problems) > maxProblems {
		problems = append(problems[:maxProblems], fmt.Sprintf("and %d more", len(problems)-maxProblems))
	}
	return edgewise.Errorf("wasm.Inspect", edgewise.Invalid, "step: %s", strings.Join(problems, "; "))
}

// maxProblems bounds how many are told.
const maxProblems = 20

func checkImport(i fuel.Import) string {
	var sign signature
	var ok bool
	switch i.Module {
	case hostModule:
		sign, ok = lookup(append(hostFunctions(), kernels()...), i.Name)
	case wasiModule:
		sign, ok = lookup(wasiFunctions(), i.Name)
	default:
		return fmt.Sprintf("import %q %q: there is no such module: a step may import from %q and %q", i.Module, i.Name, hostModule, wasiModule)
	}
	switch want := sign.funcType(); {
	case i.Kind != fuel.Function:
		return fmt.Sprintf("import %q %q is a %v: only functions can be imported", i.Module, i.Name, i.Kind)
	case !ok:
		return fmt.Sprintf("import %q %q: there is no such function", i.Module, i.Name)
	case i.Type != want:
		return fmt.Sprintf("import %q %q has the type %v: want %v", i.Module, i.Name, i.Type, want)
	}
	return ""
}
