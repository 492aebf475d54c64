package modelconfig

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/edgewise-ai/edgewise"
)

func TestTheThreeSyntaxesSayTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &edgewise.Model{}
		draw(t, reflect.ValueOf(m).Elem(), "", nil)
		want := Clone(m)
		for file, text := range map[string]string{
			"config.pbtxt": pbtxt(t, want), "config.json": jsonText(t, want),
			"config.yaml": yamlText(t, want),
		} {
			got, err := Parse(file, []byte(text))
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if diff := cmp.Diff(want, Clone(got)); diff != "" {
				t.Fatalf("%s: %s\n%s", file, diff, text)
			}
		}
	})
}

// anyText leaves out what YAML does not allow unescaped, where JSON does: the test writes YAML by way of JSON.
var anyText = rapid.StringOfN(rapid.Rune().Filter(func(r rune) bool { return r < 0x7f || unicode.IsPrint(r) }), 0, 8,
	-1)

// draw fills v with anything a Model may hold.
func draw(t *rapid.T, v reflect.Value, name string, enum []string) {
	switch {
	case v.Type() == reflect.TypeFor[edgewise.DataType]():
		v.SetUint(rapid.Uint64Range(0, uint64(edgewise.BF16)).Draw(t, name))
		return
	case enum != nil:
		v.SetString(rapid.SampledFrom(enum).Draw(t, name))
		return
	case name == "max_batch_size":
		v.SetInt(int64(rapid.Int32Range(0, 1<<31-1).Draw(t, name)))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			jsonName, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			names := schema.Enums[f.Type.Name()]
			if names == nil {
				names = schema.Enums[v.Type().Name()+"."+jsonName]
			}
			draw(t, v.Field(i), jsonName, names)
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, name) {
			v.Set(reflect.New(v.Type().Elem()))
			draw(t, v.Elem(), name, nil)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), rapid.IntRange(0, 2).Draw(t, name), 2))
		for i := range v.Len() {
			draw(t, v.Index(i), name, nil)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range rapid.IntRange(0, 2).Draw(t, name) {
			value := reflect.New(v.Type().Elem()).Elem()
			draw(t, value, name, nil)
			v.SetMapIndex(reflect.ValueOf(anyText.Draw(t, "key")), value)
		}
	case reflect.String:
		v.SetString(anyText.Draw(t, name))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, name))
	case reflect.Int32:
		v.SetInt(int64(rapid.Int32().Draw(t, name)))
	case reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, name))
	case reflect.Uint32:
		v.SetUint(uint64(rapid.Uint32().Draw(t, name)))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, name))
	case reflect.Float32:
		v.SetFloat(float64(rapid.Float32().Draw(t, name)))
	case reflect.Float64:
		v.SetFloat(rapid.Float64().Draw(t, name))
	default:
		t.Fatalf("%s: a model holds a %v, which this test cannot draw", name, v.Type())
	}
}

func jsonText(t *rapid.T, m *edgewise.Model) string {
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// yamlText writes the JSON form, which is YAML, in YAML's block style.
func yamlText(t *rapid.T, m *edgewise.Model) string {
	var n yaml.Node
	if err := yaml.Unmarshal([]byte(jsonText(t, m)), &n); err != nil {
		t.Fatal(err)
	}
	var plain func(*yaml.Node)
	plain = func(n *yaml.Node) {
		n.Style = 0
		if strings.Contains(n.Value, "\n") { // the library's writer gets some of these wrong in block style
			n.Style = yaml.DoubleQuotedStyle
		}
		for _, child := range n.Content {
			plain(child)
		}
	}
	plain(&n)
	text, err := yaml.Marshal(&n)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// pbtxt writes m as protobuf text format, choosing among the ways to write the same.
func pbtxt(t *rapid.T, m *edgewise.Model) string {
	w := &pbWriter{t: t}
	w.message(reflect.ValueOf(m).Elem())
	return w.String()
}

type pbWriter struct {
	strings.Builder
	t *rapid.T
}

func (w *pbWriter) choose(options ...string) {
	w.WriteString(rapid.SampledFrom(options).Draw(w.t, "style"))
}

func (w *pbWriter) message(v reflect.Value) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		enum := schema.Enums[f.Type.Name()] != nil || schema.Enums[v.Type().Name()+"."+name] != nil
		w.field(name, v.Field(i), enum)
	}
}

func (w *pbWriter) field(name string, v reflect.Value, enum bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			w.field(name, v.Elem(), enum)
		}
	case reflect.Slice:
		if rapid.Bool().Draw(w.t, "list") {
			w.list(name, v)
			return
		}
		for i := range v.Len() {
			w.field(name, v.Index(i), enum)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			w.WriteString(name + " { ")
			w.field("key", key, false)
			w.field("value", v.MapIndex(key), false)
			w.WriteString("}\n")
		}
	default:
		w.WriteString(name)
		w.separator(v)
		w.value(v, enum)
		w.choose("\n", ",", ";", " # end } \"\n", "\r\n")
	}
}

func (w *pbWriter) separator(v reflect.Value) {
	if v.Kind() == reflect.Struct {
		w.choose("", " ", ":", ": ")
		return
	}
	w.choose(":", " : ")
}

func (w *pbWriter) list(name string, v reflect.Value) {
	w.WriteString(name + ": [")
	for i := range v.Len() {
		if i > 0 {
			w.choose(",", "\n, ")
		}
		w.value(v.Index(i), false)
	}
	w.WriteString("]\n")
}

func (w *pbWriter) value(v reflect.Value, enum bool) {
	if d, ok := v.Interface().(edgewise.DataType); ok {
		text, _ := d.MarshalText()
		w.choose(string(text), fmt.Sprint(uint8(d)))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		marks := rapid.SampledFrom([]string{"{}", "<>"}).Draw(w.t, "marks")
		w.WriteString(marks[:1])
		w.message(v)
		w.WriteString(marks[1:])
	case reflect.String:
		w.text(v.String(), enum)
	case reflect.Bool:
		w.choose(map[bool][]string{true: {"true", "True", "t", "1"}, false: {"false", "False", "f", "0"}}[v.Bool()]...)
	case reflect.Float32, reflect.Float64:
		fmt.Fprint(w, v.Interface())
		w.choose("", "f")
	case reflect.Uint32, reflect.Uint64:
		w.WriteString(fmt.Sprintf(rapid.SampledFrom([]string{"%d", "0x%x", "0%o"}).Draw(w.t, "base"), v.Uint()))
	default:
		fmt.Fprint(w, v.Interface())
	}
}

func (w *pbWriter) text(s string, enum bool) {
	if enum {
		w.WriteString(s)
		return
	}
	mark := rapid.SampledFrom([]string{`"`, `'`}).Draw(w.t, "mark")
	w.WriteString(mark)
	for i, r := range s {
		switch {
		case r == 0x7f || r < ' ' || r == '\\' || r == '"' || r == '\'':
			fmt.Fprintf(w, `\%03o`, r)
		case r > 0xffff:
			w.choose(string(r), fmt.Sprintf(`\U%08x`, r))
		default:
			w.choose(string(r), fmt.Sprintf(`\u%04x`, r))
		}
		if i == 3 {
			w.WriteString(mark + "\n" + mark)
		}
	}
	w.WriteString(mark)
}
