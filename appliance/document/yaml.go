package document

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/edgewise-ai/edgewise/pattern"
)

func parseYAML(b *builder, data []byte) (*Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	switch err := decoder.Decode(&first); {
	case errors.Is(err, io.EOF):
		return b.node(Map, 1, 1)
	case err != nil:
		return nil, b.yamlError(err, data)
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		return nil, b.errorf(second.Line, "want one YAML document in a file, got more")
	case !errors.Is(err, io.EOF):
		return nil, b.yamlError(err, data)
	}
	root, err := b.yamlNode(first.Content[0], 1)
	if err != nil {
		return nil, err
	}
	switch root.Kind {
	case Map:
		return root, nil
	case Null:
		return b.node(Map, 1, 1)
	}
	return nil, b.errorf(root.Line, "want a mapping, got %s", root.describe())
}

var yamlLine = pattern.New(`^yaml: line (\d+): `)

// yamlError takes the line out of the library's message on data, and says what a tab in front of that line is.
func (b *builder) yamlError(err error, data []byte) *Error {
	text := err.Error()
	m := yamlLine.FindStringSubmatch(text)
	if m == nil {
		return b.errorf(0, "%s", strings.TrimPrefix(text, "yaml: "))
	}
	line, _ := strconv.Atoi(m[1])
	if lines := strings.Split(string(data), "\n"); line > 0 && line <= len(lines) && indentedByTab(lines[line-1]) {
		return b.errorf(line, "a tab stands before its first word: YAML takes spaces there")
	}
	return b.errorf(line, "%s", text[len(m[0]):])
}

func indentedByTab(line string) bool {
	return strings.Contains(line[:len(line)-len(strings.TrimLeft(line, " \t"))], "\t")
}

func (b *builder) yamlNode(y *yaml.Node, depth int) (*Node, error) {
	if y.Kind == yaml.AliasNode || y.Anchor != "" {
		return nil, b.errorf(y.Line, "anchors and aliases are not supported: write the value out")
	}
	switch y.Kind {
	case yaml.MappingNode:
		return b.yamlMap(y, depth)
	case yaml.SequenceNode:
		return b.yamlList(y, depth)
	}
	return b.yamlScalar(y)
}

func (b *builder) yamlMap(y *yaml.Node, depth int) (*Node, error) {
	n, err := b.node(Map, y.Line, depth)
	if err == nil {
		err = b.yamlTag(y, "!!map")
	}
	for i := 0; err == nil && i < len(y.Content); i += 2 {
		key := y.Content[i]
		if key.Kind != yaml.ScalarNode || key.Anchor != "" || key.ShortTag() == "!!merge" {
			return nil, b.errorf(key.Line, "want a plain name as a key: merge keys, anchors, lists and mappings are not "+
				"supported here")
		}
		f := Field{Name: key.Value, Line: key.Line}
		f.Value, err = b.yamlNode(y.Content[i+1], depth+1)
		n.Fields = append(n.Fields, f)
	}
	return n, err
}

func (b *builder) yamlList(y *yaml.Node, depth int) (*Node, error) {
	n, err := b.node(List, y.Line, depth)
	if err == nil {
		err = b.yamlTag(y, "!!seq")
	}
	for i := 0; err == nil && i < len(y.Content); i++ {
		var item *Node
		item, err = b.yamlNode(y.Content[i], depth+1)
		n.Items = append(n.Items, item)
	}
	return n, err
}

var yamlKinds = map[string]Kind{
	"!!null": Null, "!!bool": Bool, "!!int": Number, "!!float": Number, "!!str": String,
	"!!timestamp": String,
}

func (b *builder) yamlScalar(y *yaml.Node) (*Node, error) {
	kind, ok := yamlKinds[y.ShortTag()]
	if !ok || y.Style&yaml.TaggedStyle != 0 {
		return nil, b.errorf(y.Line, "tag %s is not supported", quote(y.Tag))
	}
	n, err := b.node(kind, y.Line, 0)
	if err == nil {
		n.Text = y.Value
	}
	if kind == Bool {
		n.Text = strings.ToLower(y.Value)
	}
	return n, err
}

func (b *builder) yamlTag(y *yaml.Node, want string) error {
	if y.ShortTag() != want || y.Style&yaml.TaggedStyle != 0 {
		return b.errorf(y.Line, "tag %s is not supported", quote(y.Tag))
	}
	return nil
}
