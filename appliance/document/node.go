package document

// Kind tells nodes apart.
type Kind uint8

// The kinds of node.
const (
	Null   Kind = iota // no value: null, ~ or nothing in YAML, null in JSON
	Bool               // true or false in YAML and JSON
	Number             // Text is an integer or a float, with its sign
	Name               // a bare word of protobuf text format: an enum name, true, inf, ...
	String             // Text is the value without quotes and escapes
	List               // Items
	Map                // Fields
)

// Node is one value of a document.
type Node struct {
	Kind   Kind
	Line   int     // from 1
	Text   string  // of a scalar
	Items  []*Node // of a List, in order
	Fields []Field // of a Map, in order; a name may stand there more than once
}

// Field is one named value of a Map.
type Field struct {
	Name  string
	Line  int
	Value *Node
	// From and To are where it stands among the bytes of the document, in protobuf text format, with the mark that ends
	// it.
	From, To int
}

// Field returns the first value with that name, nil when there is none.
func (n *Node) Field(name string) *Node {
	for _, f := range n.Fields {
		if f.Name == name {
			return f.Value
		}
	}
	return nil
}

// describe says what a node is, for "want ..., got ...".
func (n *Node) describe() string {
	switch n.Kind {
	case Null:
		return "no value"
	case Bool:
		return n.Text
	case Number:
		return "the number " + clip(n.Text)
	case Name:
		return "the name " + clip(n.Text)
	case String:
		return "the text " + quote(n.Text)
	case List:
		return "a list"
	}
	return "a message"
}

// builder makes the nodes of one document and keeps count of them.
type builder struct {
	file  string
	nodes int
}

// node makes a node, unless the document has too many of them or they are nested too deeply.
func (b *builder) node(kind Kind, line, depth int) (*Node, error) {
	b.nodes++
	if b.nodes > MaxNodes {
		return nil, b.tooLarge(line, "more than %d values", MaxNodes)
	}
	if depth > MaxDepth && (kind == List || kind == Map) {
		return nil, b.tooLarge(line, "nested more than %d deep", MaxDepth)
	}
	return &Node{Kind: kind, Line: line}, nil
}
