package document

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Schema is what a target type alone does not say.
type Schema struct {
	// Name is what messages call the top of the document, such as "ModelConfig".
	Name string
	// Enums lists the names of enumerations whose Go type is a string, by number. The key is a named type, such as
	// "TensorFormat", or a field, such as "QueuePolicy.timeout_action". A document may hold the name or the number.
	Enums map[string][]string
	// NumberKeys names the fields whose Go type is a map of text and whose keys are numbers, as Enums names fields.
	NumberKeys map[string]bool
}

// Decode stores the document in the struct that into points to, matching fields by their json tags. It goes on after a
// problem; the error is an *Error with all of them, and then *into is half filled. What *into held before stays where
// the document says nothing; in YAML and JSON a list or a map replaces the one before.
//
// Structs and maps are read from messages, slices from lists, maps in protobuf text format from entries with key and
// value. In protobuf text format a slice may be a repeated field; there and in JSON, as protobuf's readers have it, a
// single value stands for a list of it. Integers may be decimal, octal or hexadecimal; YAML and JSON may hold them as
// text, as protobuf's JSON writers do with 64 bits. A type with UnmarshalText reads text, and if it is an unsigned
// integer with MarshalText also the number of a name. A time.Duration reads text such as "30s". Null is a problem: it
// could mean "empty" or "absent".
func (d *Document) Decode(into any, schema Schema) error {
	dec := &decoder{doc: d, schema: schema}
	dec.message(d.Root, reflect.ValueOf(into).Elem(), "")
	if len(dec.err.Problems) == 0 {
		return nil
	}
	return &dec.err
}

type decoder struct {
	doc    *Document
	schema Schema
	err    Error
}

func (d *decoder) problem(line int, format string, args ...any) {
	if len(d.err.Problems) == MaxProblems {
		d.err.More++
		return
	}
	d.err.Problems = append(d.err.Problems, Problem{File: d.doc.File, Line: line, Text: fmt.Sprintf(format, args...)})
}

// value decodes a node into v. enum lists the names that a string may be; nil: any text. path names v in messages.
func (d *decoder) value(n *Node, v reflect.Value, path string, enum []string) {
	if text, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		d.text(n, v, path, text)
		return
	}
	if v.Type() == reflect.TypeFor[time.Duration]() {
		d.duration(n, v, path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), path, enum)
	case reflect.Struct:
		d.message(n, v, path)
	case reflect.Map:
		d.dictionary(n, v, path)
	case reflect.Slice:
		d.list(n, v, path, enum)
	default:
		d.scalar(n, v, path, enum)
	}
}

func (d *decoder) message(n *Node, v reflect.Value, path string) {
	if n.Kind != Map {
		d.want(n, path, "a message with fields")
		return
	}
	seen := map[string]int{}
	for _, f := range n.Fields {
		i := slices.Index(fieldNames(v.Type()), f.Name)
		if i < 0 || f.Name == "" {
			d.problem(f.Line, "unknown field %s in %s%s", quote(f.Name), d.place(path), Suggest(f.Name, fieldNames(v.Type())))
			continue
		}
		field := v.Field(i)
		many := field.Kind() == reflect.Slice || field.Kind() == reflect.Map
		if first := seen[f.Name]; first > 0 && !(d.doc.Syntax == Pbtxt && many) { // each time adds to it
			d.problem(f.Line, "%s is set twice, first in line %d", join(path, f.Name), first)
			continue
		}
		if seen[f.Name] == 0 {
			seen[f.Name] = f.Line
		}
		d.value(f.Value, field, join(path, f.Name), d.enum(v.Type(), i))
	}
}

func (d *decoder) list(n *Node, v reflect.Value, path string, enum []string) {
	items := n.Items
	switch {
	case n.Kind == List:
	case d.doc.Syntax == YAML || n.Kind == Null:
		d.want(n, path, "a list")
		return
	default:
		items = []*Node{n}
	}
	if v.IsNil() || d.doc.Syntax != Pbtxt {
		v.Set(reflect.MakeSlice(v.Type(), 0, len(items)))
	}
	for _, item := range items {
		element := reflect.New(v.Type().Elem()).Elem()
		d.value(item, element, fmt.Sprintf("%s[%d]", path, v.Len()), enum)
		v.Set(reflect.Append(v, element))
	}
}

func (d *decoder) dictionary(n *Node, v reflect.Value, path string) {
	if v.IsNil() || d.doc.Syntax != Pbtxt {
		v.Set(reflect.MakeMap(v.Type()))
	}
	switch {
	case d.doc.Syntax == Pbtxt && n.Kind == List:
		for _, item := range n.Items {
			d.entry(item, v, path)
		}
	case d.doc.Syntax == Pbtxt:
		d.entry(n, v, path)
	case n.Kind != Map:
		d.want(n, path, "a mapping")
	default:
		for _, f := range n.Fields {
			d.put(f.Name, f.Line, f.Value, v, path)
		}
	}
}

// entry decodes one map entry of protobuf text format: { key: ... value: ... }.
func (d *decoder) entry(n *Node, v reflect.Value, path string) {
	if n.Kind != Map {
		d.want(n, path, "an entry with key and value")
		return
	}
	var key, value *Node
	for _, f := range n.Fields {
		switch {
		case f.Name == "key" && key == nil:
			key = f.Value
		case f.Name == "value" && value == nil:
			value = f.Value
		case f.Name == "key" || f.Name == "value":
			d.problem(f.Line, "%s is set twice in an entry of %s", f.Name, path)
		default:
			d.problem(f.Line, "unknown field %s in an entry of %s: want key and value", quote(f.Name), path)
		}
	}
	if key == nil || (key.Kind != String && key.Kind != Number) {
		d.problem(n.Line, "an entry of %s has no key, or one that is not text", path)
		return
	}
	d.put(key.Text, key.Line, value, v, path)
}

func (d *decoder) put(key string, line int, value *Node, v reflect.Value, path string) {
	name := reflect.ValueOf(key).Convert(v.Type().Key())
	path = fmt.Sprintf("%s[%s]", path, quote(key))
	if v.MapIndex(name).IsValid() {
		d.problem(line, "%s is set twice", path)
		return
	}
	element := reflect.New(v.Type().Elem()).Elem()
	if value != nil {
		d.value(value, element, path, nil)
	}
	v.SetMapIndex(name, element)
}

// place names the message at path.
func (d *decoder) place(path string) string {
	if path == "" {
		return d.schema.Name
	}
	return path
}

func (d *decoder) want(n *Node, path, want string) {
	hint := ""
	switch {
	case n.Kind == Null:
		hint = ": leave the field out, or write {} or [] for an empty one"
	case want == wantText && (n.Kind == Number || n.Kind == Bool || n.Kind == Name):
		hint = ": put it in quotes"
	}
	d.problem(n.Line, "%s: want %s, got %s%s", d.place(path), want, n.describe(), hint)
}

// enum returns the names that field i of t may hold, nil when it is no enumeration.
func (d *decoder) enum(t reflect.Type, i int) []string {
	f := t.Field(i)
	if names, ok := d.schema.Enums[t.Name()+"."+jsonName(f)]; ok {
		return names
	}
	return d.schema.Enums[f.Type.Name()]
}

// fieldNames returns the names of a struct's fields in documents, "" for those that are not in them.
func fieldNames(t reflect.Type) []string {
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = jsonName(t.Field(i))
	}
	return names
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "-" || !f.IsExported() {
		return ""
	}
	return name
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
