// Package document reads protobuf text format, YAML and JSON into one tree of nodes with line numbers, and decodes such
// a tree strictly into a Go struct, reporting every problem at once.
//
// It is a leaf: it knows nothing of models or of the appliance. It does not use a protobuf library, because those stop
// at the first problem and need generated types.
package document

import (
	"bytes"
	"path"
	"unicode/utf8"
)

// Bounds of a document. They are far above any configuration written by hand, and keep the memory that a hostile one
// takes around 64 MiB.
const (
	MaxBytes    = 256 << 10 // bytes of a document; the YAML library takes up to 200 times as many
	MaxDepth    = 64        // maps and lists inside each other
	MaxNodes    = 1 << 16   // values of any kind, together
	MaxProblems = 100       // problems told apart; the rest is counted
)

// Syntax is how a document is written.
type Syntax uint8

// The syntaxes.
const (
	Pbtxt Syntax = iota // protobuf text format
	YAML
	JSON
)

// SyntaxOf returns the syntax that a file's extension stands for: .pbtxt, .yaml, .yml or .json.
func SyntaxOf(file string) (Syntax, bool) {
	switch path.Ext(file) {
	case ".pbtxt":
		return Pbtxt, true
	case ".yaml", ".yml":
		return YAML, true
	case ".json":
		return JSON, true
	}
	return 0, false
}

// Document is a parsed file. It is never changed afterwards.
type Document struct {
	File   string // as messages name it
	Syntax Syntax
	Root   *Node // always a Map; an empty file is an empty Map
}

// Parse reads a document. A leading UTF-8 byte order mark is skipped. The error is an *Error: one problem, since
// nothing after a mistake in the syntax can be trusted, with TooLarge set when a bound above is crossed.
func Parse(file string, syntax Syntax, data []byte) (*Document, error) {
	b := &builder{file: file}
	if len(data) > MaxBytes {
		return nil, b.tooLarge(0, "document has %d bytes: at most %d are allowed", len(data), MaxBytes)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		return nil, b.errorf(invalidLine(data), "document is not valid UTF-8")
	}
	root, err := b.parse(syntax, data)
	if err != nil {
		return nil, err
	}
	return &Document{File: file, Syntax: syntax, Root: root}, nil
}

func (b *builder) parse(syntax Syntax, data []byte) (*Node, error) {
	switch syntax {
	case YAML:
		return parseYAML(b, data)
	case JSON:
		return parseJSON(b, data)
	}
	return parsePbtxt(b, data)
}

func invalidLine(data []byte) int {
	line := 1
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		if r == utf8.RuneError && size == 1 {
			break
		}
		if r == '\n' {
			line++
		}
		data = data[size:]
	}
	return line
}
