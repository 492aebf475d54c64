package onnxfile

import (
	"cmp"

	"github.com/edgewise-ai/edgewise"
)

// content is what has been read of a model so far.
type content struct {
	file       *File
	graphs     int
	imports    int
	entries    int   // of metadata
	version    int64 // ir_version
	producer   [2]string
	graphIn    []value
	graphOut   []value
	parameters int64
	operators  map[string]int
	functions  []Function
	body       *body // of the graph or function being read
	bodies     map[operator]*body
	requests   []request // operators that must be functions of the file
	requested  map[operator]bool
}

func newContent() content {
	return content{
		file:      &File{Inspection: edgewise.Inspection{Opsets: map[string]int64{}, Metadata: map[string]string{}}},
		operators: map[string]int{},
		body:      newBody(),
		bodies:    map[operator]*body{},
		requested: map[operator]bool{},
	}
}

// model reads the whole file and returns what it says.
func (w *walker) model() (*File, error) {
	if err := w.beginning(); err != nil {
		return nil, err
	}
	if err := w.each(&modelMessage, w.size, w.modelField); err != nil {
		if head, unread := w.peek(0, headBytes); unread == nil && isText(head) {
			return nil, invalid("not an ONNX file: %s", textAdvice(head))
		}
		return nil, err
	}
	if err := w.checkModel(); err != nil {
		return nil, err
	}
	if err := w.checkCalls(); err != nil {
		return nil, err
	}
	if err := w.signature(); err != nil {
		return nil, err
	}
	f := w.file
	f.IRVersion, f.Functions, f.Operators = w.version, w.functions, w.operators
	f.Parameters, f.ParameterBytes, f.Nodes = w.parameters, w.weights, w.nodes
	f.Producer = w.producer[0]
	if w.producer[1] != "" {
		f.Producer += " " + w.producer[1]
	}
	return f, nil
}

// beginning looks at the size and the first bytes.
func (w *walker) beginning() error {
	if w.size > w.File {
		return tooLarge("it has %d bytes: at most %d are allowed", w.size, w.File)
	}
	if w.size == 0 {
		return invalid("not an ONNX file: it is empty")
	}
	head, err := w.peek(0, headBytes)
	if err != nil {
		return err
	}
	if advice := foreignAdvice(head); advice != "" {
		return invalid("not an ONNX file: %s", advice)
	}
	return nil
}

func (w *walker) modelField(f field) (err error) {
	switch f.number {
	case 1:
		w.version = int64(f.value)
	case 2:
		w.producer[0], err = w.name(f, "producer name")
	case 3:
		w.producer[1], err = w.name(f, "producer version")
	case 7:
		w.graphs++
		r, e := w.graph(f.end, 0)
		w.file.Graph, w.graphIn, w.graphOut = r.graph, r.inputs, r.outputs
		err = e
	case 8:
		err = w.importSet(f.end)
	case 14:
		err = w.metadata(f.end)
	case 20:
		err = unsupported("it carries training information, which is not supported: export the model for inference")
	case 25:
		err = w.function(f.end)
	case 26:
		err = unsupported("it is laid out over several devices (configuration), which is not supported")
	}
	return err
}

// importSet reads an operator set that the model imports. One domain may be named twice with the same version only.
func (w *walker) importSet(end int64) error {
	if err := count(&w.imports, w.Imports, "operator sets imported"); err != nil {
		return err
	}
	domain, version, err := w.operatorSet(end)
	if err != nil {
		return err
	}
	if before, ok := w.file.Opsets[domain]; ok && before != version {
		return invalid("operator set %.64q is imported twice, as version %d and %d", domain, before, version)
	}
	w.file.Opsets[domain] = version
	return nil
}

// operatorSet reads an import and refuses versions that the runtime does not know. Other domains than those it brings
// with it may be imported; it is using one that needs a definition.
func (w *walker) operatorSet(end int64) (domain string, version int64, err error) {
	err = w.each(&importMessage, end, func(f field) (err error) {
		switch f.number {
		case 1:
			domain, err = w.word(f, "domain")
		case 2:
			version = int64(f.value)
		}
		return err
	})
	if err != nil {
		return "", 0, err
	}
	domain = cmp.Or(domain, domainONNX)
	limit, known := map[string]int64{
		domainONNX: MaxOpset, domainML: MaxOpsetML,
		domainMicrosoft: MaxOpsetMicrosoft,
	}[domain]
	switch {
	case version < 1:
		return "", 0, invalid("operator set %.64q has version %d: want 1 or more", domain, version)
	case known && version > limit:
		return "", 0, unsupported("operator set %q version %d is newer than the runtime: at most %d is supported; "+
			"export the model again with a lower opset", domain, version, limit)
	}
	return domain, version, nil
}

// metadata reads one entry of the model's metadata. Of two with one key the last counts, as in the runtime.
func (w *walker) metadata(end int64) error {
	if err := count(&w.entries, w.Metadata, "metadata entries"); err != nil {
		return err
	}
	key, value, err := w.entry(end, w.Text)
	if err != nil {
		return within(err, "metadata")
	}
	w.file.Metadata[key] = value
	if err := w.keep(key); err != nil {
		return err
	}
	return w.keep(value)
}

// checkModel checks what a model must have.
func (w *walker) checkModel() error {
	switch {
	case w.version == 0:
		return invalid("not a complete ONNX file: ir_version is missing")
	case w.version < 0:
		return invalid("ir_version is %d: want 1 to %d", w.version, MaxIRVersion)
	case w.version > MaxIRVersion:
		return unsupported("ir_version %d is newer than the runtime: at most %d is supported", w.version, MaxIRVersion)
	case w.graphs == 0:
		return invalid("not a complete ONNX file: the graph is missing")
	case len(w.file.Opsets) == 0:
		return invalid("not a complete ONNX file: opset_import is missing")
	}
	return nil
}

// signature makes the model's inputs and outputs. An input with an initializer may be left out by a request; before
// IR version 4 it was a constant that requests could not give at all.
func (w *walker) signature() error {
	constant := map[string]bool{}
	for _, t := range w.file.Graph.Initializers {
		constant[t.Name] = true
	}
	inputs := w.graphIn[:0:0]
	for _, v := range w.graphIn {
		if !constant[v.name] || w.version >= firstOverridableIR {
			inputs = append(inputs, v)
		}
	}
	var err error
	if w.file.Inputs, err = w.infos(inputs, input, func(name string) bool { return constant[name] }); err != nil {
		return err
	}
	for i := range w.file.Inputs {
		w.file.Inputs[i].Optional = constant[w.file.Inputs[i].Name]
	}
	if len(w.graphOut) == 0 {
		return invalid("graph %.64q has no outputs", w.file.Graph.Name)
	}
	omitted := len(w.file.Omitted)
	w.file.Outputs, err = w.infos(w.graphOut, output, func(string) bool { return true })
	if err == nil && len(w.file.Outputs) == 0 {
		return unsupported("none of its outputs can be served: %s", w.file.Omitted[omitted].Reason)
	}
	return err
}

// The sides of a model, as messages name them.
const (
	input  = "input"
	output = "output"
)

// infos makes one side of the signature. Values that cannot be carried are left out where the model runs without them,
// and else refused.
func (w *walker) infos(values []value, what string, spare func(name string) bool) ([]edgewise.TensorInfo, error) {
	if len(values) > w.Signature {
		return nil, tooLarge("%d %ss: at most %d are allowed", len(values), what, w.Signature)
	}
	infos := make([]edgewise.TensorInfo, 0, len(values))
	for i := range values {
		if why := values[i].notCarried(what); why != "" && values[i].name != "" {
			if !spare(values[i].name) {
				return nil, unsupported("%s", why)
			}
			w.file.Omitted = append(w.file.Omitted, edgewise.Omitted{Name: values[i].name, Reason: why})
			continue
		}
		info, err := values[i].info(what)
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}
