package document

import (
	"bytes"
	"encoding"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Text is a field in protobuf text format, as Print writes it.
type Text struct {
	Name string
	Text string // with a line break at its end; "" when the field is not set
}

// Print writes each field of the struct that v points to, in its order, so that Decode reads the same from it. What has
// its zero value, or the first name of its enumeration, is not set, as in the output of protobuf's writers.
func Print(v any, schema Schema) []Text {
	message := reflect.ValueOf(v).Elem()
	var list []Text
	for i, name := range fieldNames(message.Type()) {
		if name != "" {
			p := printer{schema: schema}
			p.member(message, i, name)
			list = append(list, Text{name, p.String()})
		}
	}
	return list
}

type printer struct {
	strings.Builder
	schema Schema
	depth  int // of messages and lists around the line
}

func (p *printer) line(text string) { p.WriteString(strings.Repeat("  ", p.depth) + text + "\n") }

// block writes what stands between two marks.
func (p *printer) block(open, end string, inside func()) {
	p.line(open)
	p.depth++
	inside()
	p.depth--
	p.line(end)
}

func (p *printer) message(open, end string, v reflect.Value) {
	p.block(open, end, func() {
		for i, name := range fieldNames(v.Type()) {
			if name != "" {
				p.member(v, i, name)
			}
		}
	})
}

// member writes field i of a message, unless it is not set.
func (p *printer) member(message reflect.Value, i int, name string) {
	v, enum := message.Field(i), (&decoder{schema: p.schema}).enum(message.Type(), i)
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			p.message(name+" {", "}", v.Elem())
		}
	case reflect.Struct:
		p.message(name+" {", "}", v)
	case reflect.Slice:
		p.list(name, v, enum)
	case reflect.Map:
		p.entries(name, v, p.schema.NumberKeys[message.Type().Name()+"."+name])
	default:
		if text := scalarText(v, enum); !v.IsZero() && (enum == nil || text != enum[0]) {
			p.line(name + ": " + text)
		}
	}
}

func (p *printer) list(name string, v reflect.Value, enum []string) {
	switch {
	case v.Len() == 0:
	case v.Type().Elem().Kind() == reflect.Struct:
		p.block(name+" [", "]", func() {
			for i := range v.Len() {
				end := "},"
				if i+1 == v.Len() {
					end = "}"
				}
				p.message("{", end, v.Index(i))
			}
		})
	default:
		texts := make([]string, v.Len())
		for i := range texts {
			texts[i] = scalarText(v.Index(i), enum)
		}
		p.line(name + ": [" + strings.Join(texts, ", ") + "]")
	}
}

// entries writes a map, its keys in order.
func (p *printer) entries(name string, v reflect.Value, numbers bool) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		p.block(name+" {", "}", func() {
			text := quoted(key.String())
			if numbers {
				text = key.String()
			}
			p.line("key: " + text)
			if value := v.MapIndex(key); value.Kind() == reflect.Struct {
				p.message("value {", "}", value)
			} else {
				p.line("value: " + scalarText(value, nil))
			}
		})
	}
}

// scalarText writes one value. A Go string is a name where it is of an enumeration.
func scalarText(v reflect.Value, enum []string) string {
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		text, err := m.MarshalText()
		if err != nil {
			panic("BUG: " + v.Type().Name() + " has a value without a text: " + err.Error())
		}
		return string(text)
	}
	switch v.Kind() {
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.FormatUint(v.Uint(), 10)
	case reflect.Float32, reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, v.Type().Bits())
	}
	if enum != nil {
		return v.String()
	}
	return quoted(v.String())
}

// quoted writes a string literal: control characters as octal escapes, which every reader knows.
func quoted(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			b.WriteString(`\` + string(rune(c)))
		case c == '\n':
			b.WriteString(`\n`)
		case c < ' ' || c == 0x7f:
			octal := strconv.FormatUint(uint64(c), 8)
			b.WriteString(`\` + strings.Repeat("0", 3-len(octal)) + octal)
		default:
			b.WriteByte(c)
		}
	}
	return b.String() + `"`
}

// Replace returns a document in protobuf text format with other values of fields at its top. Each stands where its
// field stood first, or at the end; the rest of the document stays as it is, with its comments. Errors: those of Parse.
func Replace(file string, data []byte, fields []Text) ([]byte, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	doc, err := Parse(file, Pbtxt, data)
	if err != nil {
		return nil, err
	}
	var out []byte
	at, written := 0, map[string]bool{}
	for _, f := range doc.Root.Fields {
		i := slices.IndexFunc(fields, func(t Text) bool { return t.Name == f.Name })
		if i < 0 {
			continue
		}
		out = append(out, data[at:f.From]...)
		at = f.To
		if text := strings.TrimSuffix(fields[i].Text, "\n"); text != "" && !written[f.Name] {
			out = append(out, text...)
		} else if at == len(data) || data[at] == '\n' { // no empty line stays
			if line := bytes.TrimRight(out, " \t"); len(line) == 0 || line[len(line)-1] == '\n' {
				out, at = line, min(at+1, len(data))
			}
		}
		written[f.Name] = true
	}
	out = append(out, data[at:]...)
	for _, t := range fields {
		if t.Text == "" || written[t.Name] {
			continue
		}
		if len(out) > 0 && out[len(out)-1] != '\n' {
			out = append(out, '\n')
		}
		out = append(out, t.Text...)
	}
	return out, nil
}
