package onnxgen

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"path/filepath"
)

// Model is an ONNX model as it is written. IR 0 stands for 8, no Opsets for ai.onnx 13.
type Model struct {
	IR        int64
	Producer  string // name; "" is written as "onnxgen"
	Graph     Graph
	Functions []Function
	Metadata  []Entry
	Opsets    []Opset
	Extra     *Message // fields written after all others; nil: none

	// Files are written beside the model by Save: external data.
	Files map[string][]byte
}

// Entry is a key and its value.
type Entry struct{ Key, Value string }

// Opset is an import of an operator set.
type Opset struct {
	Domain  string
	Version int64
}

// Function is an operator made of nodes.
type Function struct {
	Domain, Name    string
	Inputs, Outputs []string
	Nodes           []Node
}

// Graph is a graph as it is written.
type Graph struct {
	Name         string // "" is written as "g"
	Nodes        []Node
	Initializers []Tensor
	Inputs       []Value
	Outputs      []Value
	Values       []Value
	Extra        *Message
}

// Node is an operation.
type Node struct {
	Op         string
	In, Out    []string
	Name       string
	Domain     string
	Attributes []Attribute
	Extra      *Message
}

// Value declares an input, an output or an inner value. Type 0 leaves the type out.
type Value struct {
	Name  string
	Type  Type
	Dims  []Dim
	Extra *Message

	Unranked bool // the shape is left out
}

// Dim is a dimension: a size, or a name when Name is set. Size -1 without a name leaves both out.
type Dim struct {
	Size int64
	Name string
}

// Dims makes fixed dimensions.
func Dims(sizes ...int64) []Dim {
	dims := make([]Dim, len(sizes))
	for i, s := range sizes {
		dims[i] = Dim{Size: s}
	}
	return dims
}

// Batch makes dimensions whose first is named "batch".
func Batch(sizes ...int64) []Dim { return append([]Dim{{Name: "batch"}}, Dims(sizes...)...) }

// Message returns the model in its wire form.
func (m *Model) Message() *Message {
	ir, producer, opsets := m.IR, m.Producer, m.Opsets
	if ir == 0 {
		ir = 8
	}
	if producer == "" {
		producer = "onnxgen"
	}
	if opsets == nil {
		opsets = []Opset{{"", 13}}
	}
	w := new(Message).Int(1, ir).String(2, producer).Nested(7, m.Graph.Message())
	for _, e := range m.Metadata {
		w.Nested(14, e.message())
	}
	for _, f := range m.Functions {
		w.Nested(25, f.message())
	}
	for _, o := range opsets {
		w.Nested(8, o.message())
	}
	return w.Raw(m.Extra.all()...)
}

// WriteTo writes the model file.
func (m *Model) WriteTo(w io.Writer) (int64, error) { return m.Message().WriteTo(w) }

// Bytes returns the model file.
func (m *Model) Bytes() []byte { return m.Message().Encoded() }

// Save writes the model and its other files into a folder, which it makes.
func (m *Model) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, data := range m.Files {
		if err := write(filepath.Join(dir, name), bytes.NewReader(data)); err != nil {
			return err
		}
	}
	return write(filepath.Join(dir, "model.onnx"), m.Message())
}

func write(path string, from io.WriterTo) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(f, 64<<10)
	if _, err := from.WriteTo(buffered); err != nil {
		f.Close()
		return err
	}
	if err := buffered.Flush(); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// Message returns the graph in its wire form.
func (g *Graph) Message() *Message {
	w := new(Message)
	for _, n := range g.Nodes {
		w.Nested(1, n.Message())
	}
	name := g.Name
	if name == "" {
		name = "g"
	}
	w.String(2, name)
	for _, t := range g.Initializers {
		w.Nested(5, t.Message())
	}
	for _, v := range g.Inputs {
		w.Nested(11, v.Message())
	}
	for _, v := range g.Outputs {
		w.Nested(12, v.Message())
	}
	for _, v := range g.Values {
		w.Nested(13, v.Message())
	}
	return w.Raw(g.Extra.all()...)
}

// Message returns the node in its wire form.
func (n *Node) Message() *Message {
	w := new(Message)
	for _, s := range n.In {
		w.String(1, s)
	}
	for _, s := range n.Out {
		w.String(2, s)
	}
	w.Text(3, n.Name).Text(4, n.Op)
	for _, a := range n.Attributes {
		w.Nested(5, a.Message())
	}
	return w.Text(7, n.Domain).Raw(n.Extra.all()...)
}

// Message returns the declaration in its wire form.
func (v *Value) Message() *Message {
	w := new(Message).Text(1, v.Name)
	if v.Type != 0 {
		shape := new(Message)
		for _, d := range v.Dims {
			shape.Nested(1, d.message())
		}
		tensor := new(Message).Int(1, int64(v.Type))
		if !v.Unranked {
			tensor.Nested(2, shape)
		}
		w.Nested(2, new(Message).Nested(1, tensor))
	}
	return w.Raw(v.Extra.all()...)
}

func (d Dim) message() *Message {
	switch {
	case d.Name != "":
		return new(Message).String(2, d.Name)
	case d.Size >= 0:
		return new(Message).Int(1, d.Size)
	}
	return new(Message)
}

func (e Entry) message() *Message { return new(Message).String(1, e.Key).String(2, e.Value) }

func (o Opset) message() *Message { return new(Message).Text(1, o.Domain).Int(2, o.Version) }

func (f *Function) message() *Message {
	w := new(Message).Text(1, f.Name)
	for _, s := range f.Inputs {
		w.String(4, s)
	}
	for _, s := range f.Outputs {
		w.String(5, s)
	}
	for _, n := range f.Nodes {
		w.Nested(7, n.Message())
	}
	return w.Nested(9, Opset{"", 13}.message()).Text(10, f.Domain)
}

// all returns the message's bytes; of a nil message, none.
func (m *Message) all() []byte {
	if m == nil {
		return nil
	}
	return m.Encoded()
}
