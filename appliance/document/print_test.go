package document

import (
	"reflect"
	"strings"
	"testing"
)

func joined(list []Text) string {
	var b strings.Builder
	for _, t := range list {
		b.WriteString(t.Text)
	}
	return b.String()
}

func TestPrintWritesWhatDecodeReads(t *testing.T) {
	want := sample{
		Name: "a \"b\"\\\n\x01ü", Count: -3, Big: -1 << 62, Size: 7, Huge: 1 << 63, Rate: 0.5, Mean: 1e-9, On: true,
		Mode: "FAST", Colour: 1, Dims: []int64{-1, 3}, Words: []string{"x", ""}, Part: &part{},
		Parts: []part{{ID: 1, Kind: "SOME"}, {More: []string{"y"}}},
		Tags:  map[string]string{"b": "2", "a": "1"}, Deep: map[string]part{"c": {ID: 4}}, Self: &sample{Name: "inner"},
	}
	text := joined(Print(&want, schema))
	got, err := decode(Pbtxt, text)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n%s\ngot  %+v\nwant %+v", err, text, got, want)
	}
}

func TestPrintLeavesOutWhatIsNotSet(t *testing.T) {
	if text := joined(Print(&sample{Mode: "SLOW", Tags: map[string]string{}}, schema)); text != "" {
		t.Errorf("%q", text)
	}
}

func TestPrintIsWhatPeopleWrite(t *testing.T) {
	s := sample{
		Mode: "FAST", Dims: []int64{1, 2}, Parts: []part{{ID: 1}, {}},
		Deep: map[string]part{"2": {ID: 3}},
	}
	numbered := schema
	numbered.NumberKeys = map[string]bool{"sample.deep": true}
	want := "mode: FAST\ndims: [1, 2]\nparts [\n  {\n    id: 1\n  },\n  {\n  }\n]\n" +
		"deep {\n  key: 2\n  value {\n    id: 3\n  }\n}\n"
	if got := joined(Print(&s, numbered)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestReplaceChangesFieldsAndKeepsTheRest(t *testing.T) {
	const text = "# about\nname: \"a\" # of it\n\nparts { id: 1 }, count: 2;\n# parts\nparts { id: 2 }\non: true"
	tests := []struct {
		name, text string
		fields     []Text
		want       string
	}{
		{"one in its place", text, []Text{{"name", "name: \"b\"\n"}}, strings.Replace(text, `"a"`, `"b"`, 1)},
		{
			"a repeated one at its first place", text,
			[]Text{{"parts", "parts [\n]\n"}},
			"# about\nname: \"a\" # of it\n\nparts [\n] count: 2;\n# parts\non: true",
		},
		{"a new one at the end", text, []Text{{"size", "size: 1\n"}}, text + "\nsize: 1\n"},
		{
			"removed", text,
			[]Text{{"on", ""}, {"parts", ""}, {"mode", ""}},
			"# about\nname: \"a\" # of it\n\n count: 2;\n# parts\n",
		},
		{"of nothing", "", []Text{{"on", "on: true\n"}}, "on: true\n"},
		{"behind a mark of UTF-8", "\ufeffon: true\nsize: 1\n", []Text{{"on", ""}}, "size: 1\n"},
		{
			"within a field of the same name", "self { name: \"x\" }\n",
			[]Text{{"name", "name: \"y\"\n"}},
			"self { name: \"x\" }\nname: \"y\"\n",
		},
	}
	for _, test := range tests {
		got, err := Replace("file", []byte(test.text), test.fields)
		if err != nil || string(got) != test.want {
			t.Errorf("%s: %v\ngot  %q\nwant %q", test.name, err, got, test.want)
		}
	}
	if _, err := Replace("file", []byte("name: {"), nil); err == nil {
		t.Error("a document that cannot be read was edited")
	}
}
