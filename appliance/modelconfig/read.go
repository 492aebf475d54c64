package modelconfig

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/document"
)

// Files returns the names under which a model's configuration is found in its folder.
func Files() []string { return []string{"config.pbtxt", "config.yaml", "config.yml", "config.json"} }

// Read returns what the configuration file in dir declares; without one, an empty model with that name. Errors: Invalid
// (more than one configuration file, not a regular file, or its content, see Parse), TooLarge, Internal.
func Read(dir, name string) (*edgewise.Model, error) {
	var found []string
	for _, file := range Files() {
		if _, err := os.Lstat(filepath.Join(dir, file)); err == nil {
			found = append(found, file)
		} else if !errors.Is(err, os.ErrNotExist) {
			return nil, fail(name, edgewise.Internal, "read configuration: %w", err)
		}
	}
	switch len(found) {
	case 0:
		return &edgewise.Model{Name: name, MaxBatchSize: Unset}, nil
	case 1:
		return readFile(dir, found[0], name)
	}
	return nil, fail(name, edgewise.Invalid, "more than one configuration: %s: keep one", strings.Join(found, ", "))
}

func readFile(dir, file, name string) (*edgewise.Model, error) {
	path := filepath.Join(dir, file)
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fail(name, edgewise.Invalid, "%s is not a regular file", file)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fail(name, edgewise.Internal, "read configuration: %w", err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, document.MaxBytes+1))
	if err != nil {
		return nil, fail(name, edgewise.Internal, "read configuration: %w", err)
	}
	return Parse(file, data)
}

// schema names what the Go types of edgewise.Model do not: enumerations, in the order of their protobuf numbers.
var schema = document.Schema{Name: "ModelConfig", Enums: map[string][]string{
	"InstanceKind": {
		string(edgewise.KindAuto), string(edgewise.KindGPU), string(edgewise.KindCPU),
		string(kindModel),
	},
	"TensorFormat":               {string(edgewise.FormatNone), string(edgewise.FormatNHWC), string(edgewise.FormatNCHW)},
	"SecondaryDevice.kind":       {"KIND_NVDLA"},
	"Optimization.priority":      {"PRIORITY_DEFAULT", "PRIORITY_MAX", "PRIORITY_MIN"},
	"QueuePolicy.timeout_action": {timeoutReject, timeoutDelay},
	"Control.kind": {
		"CONTROL_SEQUENCE_START", "CONTROL_SEQUENCE_READY", "CONTROL_SEQUENCE_END",
		"CONTROL_SEQUENCE_CORRID",
	},
	"BatchInput.kind": {
		"BATCH_ELEMENT_COUNT", "BATCH_ACCUMULATED_ELEMENT_COUNT", "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO",
		"BATCH_MAX_ELEMENT_COUNT_AS_SHAPE", "BATCH_ITEM_SHAPE", "BATCH_ITEM_SHAPE_FLATTEN",
	},
	"BatchOutput.kind":            {"BATCH_SCATTER_WITH_INPUT_SHAPE"},
	"EnsembleCondition.operator":  {"EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"},
	"EnsembleCondition.over":      {"ANY", "ALL"},
	"EnsembleCondition.otherwise": {"SKIP", "STOP"},
}, NumberKeys: map[string]bool{"DynamicBatching.priority_queue_policy": true}}

// The actions of a queue policy.
const (
	timeoutReject = "REJECT"
	timeoutDelay  = "DELAY"
)

// Parse decodes a configuration; file names it in messages, and its extension tells the syntax. MaxBatchSize is Unset
// when it is not written. Errors: Invalid with every problem on a line of its own, as "config.pbtxt:12: ...", TooLarge
// (a bound of package document).
func Parse(file string, data []byte) (*edgewise.Model, error) {
	syntax, ok := document.SyntaxOf(file)
	if !ok {
		return nil, edgewise.Errorf("modelconfig.Parse", edgewise.Invalid, "configuration %q: want one of %s", file,
			strings.Join(Files(), ", "))
	}
	doc, err := document.Parse(file, syntax, data)
	if err != nil {
		return nil, wrap(err)
	}
	m := &edgewise.Model{}
	if err := doc.Decode(m, schema); err != nil {
		return nil, wrap(err)
	}
	switch n := doc.Root.Field("max_batch_size"); {
	case n == nil:
		m.MaxBatchSize = Unset
	case m.MaxBatchSize < 0:
		return nil,
			wrap(&document.Error{Problems: []document.Problem{{File: file, Line: n.Line, Text: "max_batch_size: want 0 (no " +
				"batching) or more, got " + n.Text}}})
	}
	return m, nil
}

func wrap(err error) error {
	kind := edgewise.Invalid
	if d, ok := errors.AsType[*document.Error](err); ok && d.TooLarge {
		kind = edgewise.TooLarge
	}
	return edgewise.Errorf("modelconfig.Parse", kind, "%w", err)
}

// Clone copies m deeply. In the copy no slice and no map is nil, so that its JSON form holds [] and {}, and no
// enumeration is empty: protobuf's default is its first name.
func Clone(m *edgewise.Model) *edgewise.Model {
	c := &edgewise.Model{}
	fill(reflect.ValueOf(c).Elem(), reflect.ValueOf(m).Elem())
	return c
}

// fill copies from into to, which is settable and of the same type.
func fill(to, from reflect.Value) {
	switch from.Kind() {
	case reflect.Struct:
		for i := range from.NumField() {
			fill(to.Field(i), from.Field(i))
		}
		defaultNames(to)
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			fill(to.Elem(), from.Elem())
		}
	case reflect.Slice:
		to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			fill(to.Index(i), from.Index(i))
		}
	case reflect.Map:
		to.Set(reflect.MakeMapWithSize(from.Type(), from.Len()))
		for _, key := range from.MapKeys() {
			value := reflect.New(from.Type().Elem()).Elem()
			fill(value, from.MapIndex(key))
			to.SetMapIndex(key, value)
		}
	default:
		to.Set(from)
	}
}

// defaultNames gives empty enumerations in a message their first name.
func defaultNames(message reflect.Value) {
	for i := range message.NumField() {
		f := message.Type().Field(i)
		if f.Type.Kind() != reflect.String || message.Field(i).Len() > 0 {
			continue
		}
		names := schema.Enums[f.Type.Name()]
		if names == nil {
			names = schema.Enums[message.Type().Name()+"."+f.Tag.Get("json")]
		}
		if names != nil {
			message.Field(i).SetString(names[0])
		}
	}
}
