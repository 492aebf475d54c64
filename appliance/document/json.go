package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
)

// jsonReader walks the tokens of a document that is known to be well-formed.
type jsonReader struct {
	*builder
	data    []byte
	tokens  *json.Decoder
	line    int   // of the byte at counted
	counted int64 // bytes whose lines are counted
}

func parseJSON(b *builder, data []byte) (*Node, error) {
	r := &jsonReader{builder: b, data: data, tokens: json.NewDecoder(bytes.NewReader(data)), line: 1}
	r.tokens.UseNumber()
	if len(bytes.TrimSpace(data)) == 0 {
		return b.node(Map, 1, 1)
	}
	var syntax *json.SyntaxError
	if err := json.Unmarshal(data, new(json.RawMessage)); errors.As(err, &syntax) {
		return nil, b.errorf(r.lineAt(syntax.Offset), "%v", err)
	}
	root, err := r.value(1)
	if err == nil && root.Kind != Map {
		err = b.errorf(root.Line, "want an object, got %s", root.describe())
	}
	if err != nil {
		return nil, err
	}
	return root, nil
}

func (r *jsonReader) value(depth int) (*Node, error) {
	token, err := r.tokens.Token()
	if err != nil {
		return nil, r.errorf(r.here(), "%v", err)
	}
	line := r.here()
	switch t := token.(type) {
	case json.Delim:
		if t == '[' {
			return r.list(line, depth)
		}
		return r.object(line, depth)
	case string:
		return r.scalar(String, line, t)
	case json.Number:
		return r.scalar(Number, line, t.String())
	case bool:
		return r.scalar(Bool, line, strconv.FormatBool(t))
	}
	return r.scalar(Null, line, "")
}

func (r *jsonReader) scalar(kind Kind, line int, text string) (*Node, error) {
	n, err := r.node(kind, line, 0)
	if err == nil {
		n.Text = text
	}
	return n, err
}

func (r *jsonReader) list(line, depth int) (*Node, error) {
	n, err := r.node(List, line, depth)
	for err == nil && r.tokens.More() {
		var item *Node
		item, err = r.value(depth + 1)
		n.Items = append(n.Items, item)
	}
	if err == nil {
		_, err = r.tokens.Token() // the closing bracket
	}
	return n, err
}

func (r *jsonReader) object(line, depth int) (*Node, error) {
	n, err := r.node(Map, line, depth)
	for err == nil && r.tokens.More() {
		var name json.Token
		if name, err = r.tokens.Token(); err != nil {
			break
		}
		f := Field{Line: r.here()}
		f.Name, _ = name.(string)
		f.Value, err = r.value(depth + 1)
		n.Fields = append(n.Fields, f)
	}
	if err == nil {
		_, err = r.tokens.Token() // the closing brace
	}
	return n, err
}

// here is the line of the token just read.
func (r *jsonReader) here() int { return r.lineAt(r.tokens.InputOffset()) }

// lineAt counts onwards from the last call, so that a walk is linear.
func (r *jsonReader) lineAt(offset int64) int {
	offset = min(offset, int64(len(r.data)))
	if offset > r.counted {
		r.line += bytes.Count(r.data[r.counted:offset], []byte("\n"))
		r.counted = offset
	}
	return r.line
}
