package document

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// colour is an enumeration that knows its names and numbers.
type colour uint8

func (c colour) MarshalText() ([]byte, error) {
	if c > 1 {
		return nil, errors.New("no such colour")
	}
	return []byte([]string{"RED", "BLUE"}[c]), nil
}

func (c *colour) UnmarshalText(text []byte) error {
	switch string(text) {
	case "RED":
		*c = 0
	case "BLUE":
		*c = 1
	default:
		return errors.New("unknown colour " + string(text))
	}
	return nil
}

type sample struct {
	Name   string            `json:"name"`
	Count  int32             `json:"count"`
	Big    int64             `json:"big"`
	Size   uint32            `json:"size"`
	Huge   uint64            `json:"huge"`
	Rate   float32           `json:"rate"`
	Mean   float64           `json:"mean"`
	On     bool              `json:"on"`
	Mode   string            `json:"mode"`
	Colour colour            `json:"colour"`
	Wait   time.Duration     `json:"wait"`
	Dims   []int64           `json:"dims"`
	Words  []string          `json:"words"`
	Part   *part             `json:"part,omitempty"`
	Parts  []part            `json:"parts"`
	Tags   map[string]string `json:"tags"`
	Deep   map[string]part   `json:"deep"`
	Self   *sample           `json:"self,omitempty"`
	Hidden string            `json:"-"`
}

type part struct {
	ID   int64    `json:"id"`
	Kind string   `json:"kind"`
	More []string `json:"more"`
}

var schema = Schema{Name: "Sample", Enums: map[string][]string{
	"sample.mode": {"SLOW", "FAST"},
	"part.kind":   {"NONE", "SOME"},
}}

func decode(syntax Syntax, text string) (sample, error) {
	var s sample
	doc, err := Parse("file", syntax, []byte(text))
	if err == nil {
		err = doc.Decode(&s, schema)
	}
	return s, err
}

func TestDecodeReadsEveryFormOfAValue(t *testing.T) {
	tests := []struct {
		name   string
		syntax Syntax
		text   string
		want   sample
	}{
		{"nothing", Pbtxt, "", sample{}},
		{"comments only", Pbtxt, "# a\n  # b", sample{}},
		{"colon before a message", Pbtxt, `part: { id: 7 }`, sample{Part: &part{ID: 7}}},
		{"no colon before a message", Pbtxt, `part { id: 7 }`, sample{Part: &part{ID: 7}}},
		{"angle brackets", Pbtxt, `part < id: 7 >`, sample{Part: &part{ID: 7}}},
		{"empty message", Pbtxt, `part {}`, sample{Part: &part{}}},
		{
			"separators between fields", Pbtxt, `name: "a", count: 1; big: 2 parts { id: 1 }, parts { id: 2 };`,
			sample{Name: "a", Count: 1, Big: 2, Parts: []part{{ID: 1}, {ID: 2}}},
		},
		{"list and repeated field mixed", Pbtxt, "dims: [1, 2] dims: 3\ndims: [ ]", sample{Dims: []int64{1, 2, 3}}},
		{"empty list", Pbtxt, "dims: []", sample{Dims: []int64{}}},
		{"list of messages", Pbtxt, `parts [ {id: 1}, <id: 2> ]`, sample{Parts: []part{{ID: 1}, {ID: 2}}}},
		{"list of messages after a colon", Pbtxt, `parts: [ {id: 1} ]`, sample{Parts: []part{{ID: 1}}}},
		{"both quotes", Pbtxt, `name: 'say "hi"' words: "it's"`, sample{Name: `say "hi"`, Words: []string{"it's"}}},
		{"adjacent strings", Pbtxt, "name: \"a\" 'b'\n # c\n \"d\"", sample{Name: "abd"}},
		{"escapes", Pbtxt, `name: "\n\t\\\"\'\?\x41\101\7\u00e9\U0001F600"`, sample{Name: "\n\t\\\"'?AA\aé😀"}},
		{"bytes of one letter escaped one by one", Pbtxt, `name: "\303\251\xc3\xa9"`, sample{Name: "éé"}},
		{
			"integers", Pbtxt, `count: -0x10 big: - 017 size: 0XfF huge: 18446744073709551615`,
			sample{Count: -16, Big: -15, Size: 255, Huge: 1<<64 - 1},
		},
		{"floats", Pbtxt, `rate: 1.5f mean: -.5e+3F`, sample{Rate: 1.5, Mean: -500}},
		{"integer and suffix as floats", Pbtxt, `rate: 2 mean: 10f`, sample{Rate: 2, Mean: 10}},
		{"true as number", Pbtxt, `on: 1`, sample{On: true}},
		{"true as letter", Pbtxt, `on: t`, sample{On: true}},
		{"true capitalised", Pbtxt, `on: True`, sample{On: true}},
		{"false", Pbtxt, `on: f`, sample{}},
		{
			"enumeration names", Pbtxt, `mode: FAST colour: BLUE part { kind: SOME }`,
			sample{Mode: "FAST", Colour: 1, Part: &part{Kind: "SOME"}},
		},
		{"enumeration numbers", Pbtxt, `mode: 1 colour: 1`, sample{Mode: "FAST", Colour: 1}},
		{
			"map entries", Pbtxt, `tags { key: "a" value: "1" } tags: { value: "2", key: "b" }`,
			sample{Tags: map[string]string{"a": "1", "b": "2"}},
		},
		{
			"map list", Pbtxt, `deep: [{key: "a", value { id: 1 }}, {key: "b" value: <id: 2>}]`,
			sample{Deep: map[string]part{"a": {ID: 1}, "b": {ID: 2}}},
		},
		{"map entry without a value", Pbtxt, `tags { key: "a" }`, sample{Tags: map[string]string{"a": ""}}},
		{"map key that is a number", Pbtxt, `tags { key: 7 value: "x" }`, sample{Tags: map[string]string{"7": "x"}}},
		{"byte order mark and carriage returns", Pbtxt, "\ufeffname: \"a\"\r\ncount: 1\r\n", sample{Name: "a", Count: 1}},

		{"yaml nothing", YAML, "", sample{}},
		{"yaml comments only", YAML, "# a\n---\n# b\n", sample{}},
		{"yaml block", YAML, "name: a\ndims: [1, -1]\nparts:\n- id: 1\n- {id: 2, kind: SOME}\ntags: {a: x}\ndeep:\n  k: " +
			"{id: 3}\n", sample{
			Name: "a", Dims: []int64{1, -1}, Parts: []part{{ID: 1}, {ID: 2, Kind: "SOME"}},
			Tags: map[string]string{"a": "x"}, Deep: map[string]part{"k": {ID: 3}},
		}},
		{
			"yaml numbers", YAML, "count: 0x10\nbig: +5\nsize: 0o17\nrate: .inf\nmean: 1e3",
			sample{Count: 16, Big: 5, Size: 15, Rate: inf32, Mean: 1000},
		},
		{
			"yaml big numbers as text", YAML, `{big: "-9007199254740993", huge: "18446744073709551615"}`,
			sample{Big: -9007199254740993, Huge: 1<<64 - 1},
		},
		{"yaml bool and enumerations", YAML, "on: True\nmode: FAST\ncolour: BLUE", sample{On: true, Mode: "FAST", Colour: 1}},
		{"yaml duration", YAML, "wait: 1m30s", sample{Wait: 90 * time.Second}},
		{"yaml date is text", YAML, "name: 2024-01-02", sample{Name: "2024-01-02"}},
		{"yaml numeric key", YAML, "tags: {1: x}", sample{Tags: map[string]string{"1": "x"}}},

		{"json nothing", JSON, " \n", sample{}},
		{
			"json object", JSON,
			`{"name":"\u00e9","dims":[1,2],"parts":[{"id":1}],"tags":{"a":"b"},"on":true,"mode":"FAST","colour":1,"mean":1e-3}`,
			sample{
				Name: "é", Dims: []int64{1, 2}, Parts: []part{{ID: 1}}, Tags: map[string]string{"a": "b"}, On: true,
				Mode: "FAST", Colour: 1, Mean: 1e-3,
			},
		},
		{
			"json big numbers both ways", JSON, `{"big":9007199254740993,"huge":"18446744073709551615"}`,
			sample{Big: 9007199254740993, Huge: 1<<64 - 1},
		},
		{
			"json single value for a list", JSON, `{"dims":3,"parts":{"id":1}}`,
			sample{Dims: []int64{3}, Parts: []part{{ID: 1}}},
		},
		{"json infinity as text", JSON, `{"rate":"-Infinity"}`, sample{Rate: -inf32}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decode(tt.syntax, tt.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDecodeKeepsWhatTheDocumentLeavesOut(t *testing.T) {
	s := sample{Name: "before", Count: 1, Dims: []int64{1}, Tags: map[string]string{"a": "b"}}
	doc, err := Parse("file", YAML, []byte("count: 2\ndims: [2]\ntags: {c: d}"))
	if err == nil {
		err = doc.Decode(&s, schema)
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample{Name: "before", Count: 2, Dims: []int64{2}, Tags: map[string]string{"c": "d"}},
		s); diff != "" {
		t.Error(diff)
	}
}

func TestNaNIsANumber(t *testing.T) {
	for syntax, text := range map[Syntax]string{Pbtxt: "mean: -nan", YAML: "mean: .nan", JSON: `{"mean":"NaN"}`} {
		if s, err := decode(syntax, text); err != nil || s.Mean == s.Mean {
			t.Errorf("syntax %d: got %v, %v", syntax, s.Mean, err)
		}
	}
}

func TestDecodeReportsEveryProblemWithItsLine(t *testing.T) {
	_, err := decode(Pbtxt, `
nam: "x"
count: "3"
count: 4
part {
  idd: 1
  kind: SOMME
}
tags { key: "a" value: "1" }
tags { key: "a" value: "2" }
parts { id: 1 }
parts { more: 5 }
`)
	want := `file:2: unknown field "nam" in Sample (did you mean "name"?)
file:3: count: want an integer from -2147483648 to 2147483647, got the text "3"
file:4: count is set twice, first in line 3
file:6: unknown field "idd" in part (did you mean "id"?)
file:7: part.kind: unknown name "SOMME": want one of NONE, SOME (did you mean "SOME"?)
file:10: tags["a"] is set twice
file:12: parts[1].more[0]: want text, got the number 5: put it in quotes`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

func TestDecodeRefuses(t *testing.T) {
	tests := []struct {
		name   string
		syntax Syntax
		text   string
		want   string
	}{
		{"int32 overflow", Pbtxt, "count: 2147483648", "file:1: count: want an integer from -2147483648 to 2147483647, got " +
			"the number 2147483648"},
		{"int64 overflow", YAML, "big: 9223372036854775808", "file:1: big: want an integer from -9223372036854775808 to " +
			"9223372036854775807, got the number 9223372036854775808"},
		{"uint32 overflow", JSON, `{"size":4294967296}`, "file:1: size: want an integer from 0 to 4294967295, got the " +
			"number 4294967296"},
		{"uint64 overflow", Pbtxt, "huge: 18446744073709551616", "file:1: huge: want an integer from 0 to " +
			"18446744073709551615, got the number 18446744073709551616"},
		{"negative unsigned", Pbtxt, "size: -1", "file:1: size: want an integer from 0 to 4294967295, got the number -1"},
		{"float32 overflow", Pbtxt, "rate: 1e39", "file:1: rate: want a number that fits in 32 bits, got the number 1e39"},
		{
			"float64 overflow", JSON, `{"mean":1e999}`,
			"file:1: mean: want a number that fits in 64 bits, got the number 1e999",
		},
		{"fraction for an integer", YAML, "count: 1.5", "file:1: count: want an integer from -2147483648 to 2147483647, " +
			"got the number 1.5"},
		{
			"text that is no integer", JSON, `{"big":"0x10"}`,
			`file:1: big: want an integer from -9223372036854775808 to 9223372036854775807, got the text "0x10"`,
		},
		{"text for a bool", YAML, `on: "true"`, `file:1: on: want true or false, got the text "true"`},
		{"number for a bool outside pbtxt", JSON, `{"on":1}`, "file:1: on: want true or false, got the number 1"},
		{"bare word for text", Pbtxt, "name: cat", "file:1: name: want text, got the name cat: put it in quotes"},
		{"number for text", YAML, "name: 7", "file:1: name: want text, got the number 7: put it in quotes"},
		{"null", YAML, "part:", "file:1: part: want a message with fields, got no value: leave the field out, or write {} " +
			"or [] for an empty one"},
		{"null in JSON", JSON, `{"dims":null}`, "file:1: dims: want a list, got no value: leave the field out, or write {} " +
			"or [] for an empty one"},
		{"scalar for a list outside pbtxt", YAML, "dims: 3", "file:1: dims: want a list, got the number 3"},
		{
			"list for a scalar", YAML, "count: [3]",
			"file:1: count: want an integer from -2147483648 to 2147483647, got a list",
		},
		{"list for a mapping", JSON, `{"tags":[]}`, "file:1: tags: want a mapping, got a list"},
		{"scalar for a message", Pbtxt, "part: 3", "file:1: part: want a message with fields, got the number 3"},
		{"duplicate yaml key", YAML, "dims: [1]\ndims: [2]", "file:2: dims is set twice, first in line 1"},
		{"duplicate json key", JSON, "{\"tags\":{\"a\":\"b\",\n\"a\":\"b\"}}", "file:2: tags[\"a\"] is set twice"},
		{"duplicate message", Pbtxt, "part {}\npart {}", "file:2: part is set twice, first in line 1"},
		{"unknown field in a list", JSON, `{"parts":[{},{"x":1}]}`, `file:1: unknown field "x" in parts[1]`},
		{"field that is not in documents", JSON, `{"Hidden":"x","-":"x"}`, "file:1: unknown field \"Hidden\" in " +
			"Sample\nfile:1: unknown field \"-\" in Sample"},
		{"camel case", JSON, `{"mo_De":"FAST"}`, `file:1: unknown field "mo_De" in Sample (did you mean "mode"?)`},
		{"enumeration number out of range", Pbtxt, "mode: 2", "file:1: mode: want one of SLOW, FAST, got the number 2"},
		{"negative enumeration number", JSON, `{"mode":-1}`, "file:1: mode: want one of SLOW, FAST, got the number -1"},
		{
			"quoted enumeration in pbtxt", Pbtxt, `mode: "FAST" colour: "BLUE"`,
			"file:1: mode: write the name FAST without quotes\nfile:1: colour: write the name BLUE without quotes",
		},
		{"list for an enumeration", YAML, "mode: []", "file:1: mode: want one of SLOW, FAST, got a list"},
		{"unknown name of a text type", JSON, `{"colour":"PINK"}`, "file:1: colour: unknown colour PINK"},
		{"unknown number of a text type", Pbtxt, "colour: 2 colour: 300", "file:1: colour: no name has the number " +
			"2\nfile:1: colour is set twice, first in line 1"},
		{"list for a text type", JSON, `{"colour":[]}`, "file:1: colour: want text, got a list"},
		{"duration without a unit", YAML, "wait: 30", "file:1: wait: want a time with its unit, such as 30s or 1h30m, got " +
			"the number 30"},
		{"map entry without a key", Pbtxt, `tags { value: "x" }`, "file:1: an entry of tags has no key, or one that is " +
			"not text"},
		{
			"map entry with another field", Pbtxt, `tags { key: "k" valu: "x" }`,
			`file:1: unknown field "valu" in an entry of tags: want key and value`,
		},
		{
			"map entry with two values", Pbtxt, `tags { key: "k" value: "x" value: "y" }`,
			"file:1: value is set twice in an entry of tags",
		},
		{"map entry that is text", Pbtxt, `tags: "x"`, `file:1: tags: want an entry with key and value, got the text "x"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := decode(tt.syntax, tt.text)
			if err == nil || err.Error() != tt.want {
				t.Errorf("got:\n%v\nwant:\n%s", err, tt.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct {
		name   string
		syntax Syntax
		text   string
		want   string
	}{
		{"invalid UTF-8", Pbtxt, "a: 1\nb: \"\xff\"", "file:2: document is not valid UTF-8"},
		{"bytes that are no text", Pbtxt, `name: "\xff"`, `file:1: string "\xff" is not valid UTF-8`},
		{"open message", Pbtxt, "a {\n b: 1\n", `file:3: want a field name or "}", got the end of the file`},
		{"wrong closing mark", Pbtxt, "a { >", `file:1: want a field name or "}", got ">"`},
		{"closing mark too many", Pbtxt, "}", `file:1: want a field name, got "}"`},
		{"no value", Pbtxt, "a:", "file:1: want a value, got the end of the file"},
		{"no colon before a scalar", Pbtxt, "a 1", `file:1: want ":" or "{" after a, got "1"`},
		{"no colon before a list of scalars", Pbtxt, "a [1]", `file:1: want ":" after a: only messages go without it`},
		{"comma at the end of a list", Pbtxt, "a: [1,]", `file:1: want a value after ",", got "]"`},
		{"no comma in a list", Pbtxt, "a: [1 2]", `file:1: want "," or "]", got "2"`},
		{"list in a list", Pbtxt, "a: [[1]]", `file:1: want a value, not a list inside a list, got "["`},
		{"extension", Pbtxt, "[a.b]: 1", `file:1: want a field name, got "["`},
		{"minus before text", Pbtxt, `a: -"x"`, `file:1: want a value, got the text "x"`},
		{"minus before a name", Pbtxt, `a: -x`, `file:1: want a value, got "x"`},
		{"two separators", Pbtxt, "a: 1,,", `file:1: want a field name, got ","`},
		{
			"string over two lines", Pbtxt, "a: \"x\ny\"",
			`file:1: string ends at the end of the line: want '"', or \n for a line break`,
		},
		{"string not closed", Pbtxt, "a: 'x", `file:1: string is not closed: want '\''`},
		{"string that ends in a backslash", Pbtxt, `a: "x\`, "file:1: string is not closed"},
		{"unknown escape", Pbtxt, `a: "\q"`, `file:1: unknown escape \q`},
		{"short escape", Pbtxt, `a: "\u12"`, "file:1: escape has too few digits: want 4 in base 16"},
		{"empty escape", Pbtxt, `a: "\xg"`, "file:1: escape has too few digits: want 1 in base 16"},
		{"octal above a byte", Pbtxt, `a: "\777"`, `file:1: octal escape is above \377`},
		{"surrogate", Pbtxt, `a: "\ud800"`, `file:1: escape \ud800 is not a code point`},
		{"beyond the last code point", Pbtxt, `a: "\UFFFFFFFF"`, `file:1: escape \Uffffffff is not a code point`},
		{"bad octal", Pbtxt, "a: 089", `file:1: "089" is not a number`},
		{"bad number", Pbtxt, "a: 12ab", `file:1: "12ab" is not a number`},
		{"underscore in a number", Pbtxt, "a: 1_000", `file:1: "1_000" is not a number`},
		{"hexadecimal without digits", Pbtxt, "a: 0x", `file:1: "0x" is not a number`},
		{"two dots", Pbtxt, "a: 1.2.3", `file:1: "1.2.3" is not a number`},
		{"stray character", Pbtxt, "a: @", `file:1: unexpected character '@'`},

		{"yaml list at the top", YAML, "- a", "file:1: want a mapping, got a list"},
		{"a tab in yaml", YAML, "part:\n\tname: x", "file:2: a tab stands before its first word: YAML takes spaces there"},
		{"a tab behind a space in yaml", YAML, "part:\n  \tname: x", "file:2: a tab stands before its first word: YAML takes spaces there"},
		{"another character that yaml does not take", YAML, "a: 1\nname: @x", "file:2: found character that cannot start any token"},
		{"two yaml documents", YAML, "a: 1\n---\nb: 1", "file:2: want one YAML document in a file, got more"},
		{"yaml anchor", YAML, "a: 1\nb: &x 2", "file:2: anchors and aliases are not supported: write the value out"},
		{"yaml alias", YAML, "a: &x [1]\nb: *x", "file:1: anchors and aliases are not supported: write the value out"},
		{
			"yaml merge key", YAML, "<<: {a: 1}",
			"file:1: want a plain name as a key: merge keys, anchors, lists and mappings are not supported here",
		},
		{
			"yaml list as a key", YAML, "? [a]\n: 1",
			"file:1: want a plain name as a key: merge keys, anchors, lists and mappings are not supported here",
		},
		{"yaml tag", YAML, "a: !x 1", `file:1: tag "!x" is not supported`},
		{"yaml binary", YAML, "a: !!binary aGk=", `file:1: tag "!!binary" is not supported`},
		{"yaml tag on a list", YAML, "a: !!set [1]", `file:1: tag "!!set" is not supported`},
		{"yaml tag on a mapping", YAML, "a: !x {}", `file:1: tag "!x" is not supported`},

		{"json list at the top", JSON, "\n[]", "file:2: want an object, got a list"},
		{"json cut off", JSON, "{\n\"a\":", "file:2: unexpected end of JSON input"},
		{"json trailing comma", JSON, "{\"a\":1,\n}", "file:2: invalid character '}' looking for beginning of object key string"},
		{"json trailing data", JSON, "{}\n{}", "file:2: invalid character '{' after top-level value"},
		{"json leading zero", JSON, `{"a":01}`, "file:1: invalid character '1' after object key:value pair"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("file", tt.syntax, []byte(tt.text))
			if err == nil || err.Error() != tt.want {
				t.Errorf("got:\n%v\nwant:\n%s", err, tt.want)
			}
		})
	}
}

func TestYAMLSyntaxErrorsNameTheLine(t *testing.T) {
	_, err := Parse("file", YAML, []byte("a: 1\nb: [1\nc: 2\n"))
	if want := "file:1: did not find expected ',' or ']'"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestEveryBoundIsKept(t *testing.T) {
	nested := func(open, end string, depth int) string {
		return strings.Repeat(open, depth) + strings.Repeat(end, depth)
	}
	// The counts below leave one value for the Map at the top and one for the List.
	tests := []struct {
		name   string
		syntax Syntax
		fits   string
		over   string
		want   string
	}{
		{
			"pbtxt bytes", Pbtxt, strings.Repeat(" ", MaxBytes), strings.Repeat(" ", MaxBytes+1),
			"document has 262145 bytes: at most 262144 are allowed",
		},
		{"pbtxt depth", Pbtxt, nested("a{", "}", MaxDepth-1), nested("a{", "}", MaxDepth), "nested more than 64 deep"},
		{"yaml depth", YAML, "a: " + nested("[", "]", MaxDepth-1), "a: " + nested("[", "]", MaxDepth), "nested more than 64 deep"},
		{
			"json depth", JSON, `{"a":` + nested("[", "]", MaxDepth-1) + "}", `{"a":` + nested("[", "]", MaxDepth) + "}",
			"nested more than 64 deep",
		},
		{"pbtxt values", Pbtxt, "a: [1" + strings.Repeat(",1", MaxNodes-3) + "]", "a: [1" + strings.Repeat(",1",
			MaxNodes-2) + "]", "more than 65536 values"},
		{"yaml values", YAML, "a: [1" + strings.Repeat(",1", MaxNodes-3) + "]", "a: [1" + strings.Repeat(",1",
			MaxNodes-2) + "]", "more than 65536 values"},
		{"json values", JSON, `{"a":[1` + strings.Repeat(",1", MaxNodes-3) + "]}", `{"a":[1` + strings.Repeat(",1",
			MaxNodes-2) + "]}", "more than 65536 values"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Parse("file", tt.syntax, []byte(tt.fits)); err != nil {
				t.Errorf("at the bound: %v", err)
			}
			_, err := Parse("file", tt.syntax, []byte(tt.over))
			var e *Error
			if !errors.As(err, &e) || !e.TooLarge || e.Problems[0].Text != tt.want {
				t.Errorf("over the bound: got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestProblemsBeyondTheBoundAreCounted(t *testing.T) {
	_, err := decode(Pbtxt, strings.Repeat("zzzzzz: 1\n", MaxProblems+5))
	if lines := strings.Split(err.Error(), "\n"); len(lines) != MaxProblems+1 || lines[MaxProblems] != "... and 5 more" {
		t.Errorf("got %d lines, the last is %q", len(lines), lines[len(lines)-1])
	}
}

func TestMessagesRepeatOnlyTheBeginningOfLongText(t *testing.T) {
	_, err := decode(Pbtxt, `count: "`+strings.Repeat("é", 1000)+`"`)
	if len(err.Error()) > 300 {
		t.Errorf("message has %d bytes", len(err.Error()))
	}
}

func TestFieldReturnsTheFirst(t *testing.T) {
	doc, err := Parse("file", Pbtxt, []byte("a: 1\na: 2"))
	if err != nil {
		t.Fatal(err)
	}
	if f := doc.Root.Field("a"); f == nil || f.Text != "1" || f.Line != 1 {
		t.Errorf("got %+v", f)
	}
	if f := doc.Root.Field("b"); f != nil {
		t.Errorf("got %+v for a field that is not there", f)
	}
}

func TestSyntaxOf(t *testing.T) {
	for file, want := range map[string]Syntax{"config.pbtxt": Pbtxt, "a/b.yaml": YAML, "b.yml": YAML, "c.json": JSON} {
		if got, ok := SyntaxOf(file); !ok || got != want {
			t.Errorf("%s: got %d, %v", file, got, ok)
		}
	}
	if _, ok := SyntaxOf("model.onnx"); ok {
		t.Error("model.onnx has a syntax")
	}
}

func TestSuggest(t *testing.T) {
	known := []string{"max_batch_size", "input", "output", ""}
	tests := []struct{ name, want string }{
		{"max_batchsize", ` (did you mean "max_batch_size"?)`},
		{"maxBatchSize", ` (did you mean "max_batch_size"?)`},
		{"inputs", ` (did you mean "input"?)`},
		{"outptu", ` (did you mean "output"?)`},
		{"colour", ""},
		{"x", ""},
		{strings.Repeat("input", 100), ""},
	}
	for _, tt := range tests {
		if got := Suggest(tt.name, known); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
