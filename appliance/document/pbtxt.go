package document

import (
	"slices"
	"strings"
)

// pbReader is a recursive descent over the tokens of protobuf text format. Extensions, which stand in brackets where a
// field's name is expected, are not part of it.
// Source: the protocol buffers text format language specification, "Syntax elements".
type pbReader struct {
	*scanner
	token token // the next one
	end   int   // where the token before it ends
}

func parsePbtxt(b *builder, data []byte) (*Node, error) {
	r := &pbReader{scanner: &scanner{builder: b, data: string(data), line: 1}}
	if err := r.advance(); err != nil {
		return nil, err
	}
	return r.message(1, "", 1)
}

func (r *pbReader) advance() (err error) {
	r.end = r.scanner.at
	r.token, err = r.next()
	return err
}

func (r *pbReader) at(punctuation string) bool {
	return r.token.kind == tokenPunctuation && strings.Contains(punctuation, r.token.text)
}

func (r *pbReader) unexpected(want string) error {
	return r.errorf(r.token.line, "want %s, got %s", want, r.token.describe())
}

// message reads fields up to the closing mark, or to the end of the file when it is "".
func (r *pbReader) message(line int, closing string, depth int) (*Node, error) {
	n, err := r.node(Map, line, depth)
	if err != nil {
		return nil, err
	}
	for !r.closes(closing) {
		f, err := r.field(closing, depth)
		if err != nil {
			return nil, err
		}
		if r.at(",;") {
			if err := r.advance(); err != nil {
				return nil, err
			}
		}
		f.To = r.end
		n.Fields = append(n.Fields, f)
	}
	if closing == "" {
		return n, nil
	}
	return n, r.advance()
}

func (r *pbReader) closes(closing string) bool {
	if closing == "" {
		return r.token.kind == tokenEnd
	}
	return r.at(closing)
}

func (r *pbReader) field(closing string, depth int) (Field, error) {
	f := Field{Name: r.token.text, Line: r.token.line, From: r.token.from}
	if r.token.kind != tokenWord {
		want := "a field name"
		if closing != "" {
			want += " or " + quote(closing)
		}
		return f, r.unexpected(want)
	}
	if err := r.advance(); err != nil {
		return f, err
	}
	colon := r.at(":")
	if colon {
		if err := r.advance(); err != nil {
			return f, err
		}
	}
	if !colon && !r.at("{<[") {
		return f, r.unexpected("\":\" or \"{\" after " + clip(f.Name))
	}
	var err error
	if f.Value, err = r.value(depth + 1); err != nil {
		return f, err
	}
	if !colon && f.Value.Kind == List && slices.ContainsFunc(f.Value.Items, notMap) {
		err = r.errorf(f.Line, "want \":\" after %s: only messages go without it", clip(f.Name))
	}
	return f, err
}

func notMap(n *Node) bool { return n.Kind != Map }

func (r *pbReader) value(depth int) (*Node, error) {
	switch {
	case r.at("["):
		return r.list(depth)
	case r.at("{"):
		return r.open("}", depth)
	case r.at("<"):
		return r.open(">", depth)
	}
	return r.scalar()
}

func (r *pbReader) open(closing string, depth int) (*Node, error) {
	line := r.token.line
	if err := r.advance(); err != nil {
		return nil, err
	}
	return r.message(line, closing, depth)
}

func (r *pbReader) list(depth int) (*Node, error) {
	n, err := r.node(List, r.token.line, depth)
	if err != nil {
		return nil, err
	}
	if err := r.advance(); err != nil {
		return nil, err
	}
	for !r.at("]") {
		if r.at("[") {
			return nil, r.unexpected("a value, not a list inside a list")
		}
		item, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		n.Items = append(n.Items, item)
		if r.at("]") {
			break
		}
		if err := r.comma(); err != nil {
			return nil, err
		}
	}
	return n, r.advance()
}

// comma passes the comma between two values of a list; protobuf allows none after the last.
func (r *pbReader) comma() error {
	if !r.at(",") {
		return r.unexpected("\",\" or \"]\"")
	}
	if err := r.advance(); err != nil {
		return err
	}
	if r.at("]") {
		return r.unexpected("a value after \",\"")
	}
	return nil
}

func (r *pbReader) scalar() (*Node, error) {
	n, err := r.node(Name, r.token.line, 0)
	if err != nil {
		return nil, err
	}
	if r.at("-") {
		n.Text = "-"
		if err := r.advance(); err != nil {
			return nil, err
		}
	}
	switch {
	case r.token.kind == tokenNumber:
		n.Kind = Number
	case r.token.kind == tokenWord && (n.Text == "" || floatName(r.token.text)):
	case r.token.kind == tokenString && n.Text == "":
		return r.strings(n)
	default:
		return nil, r.unexpected("a value")
	}
	n.Text += r.token.text
	return n, r.advance()
}

// strings joins adjacent string literals.
func (r *pbReader) strings(n *Node) (*Node, error) {
	n.Kind = String
	var joined strings.Builder
	for r.token.kind == tokenString {
		joined.WriteString(r.token.text)
		if err := r.advance(); err != nil {
			return nil, err
		}
	}
	n.Text = joined.String()
	return n, nil
}

// floatName tells whether a word stands for a float that has no digits.
func floatName(word string) bool {
	switch strings.ToLower(word) {
	case "inf", "infinity", "nan":
		return true
	}
	return false
}
