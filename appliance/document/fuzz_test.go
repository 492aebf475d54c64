package document

import (
	"math"
	"testing"
)

var inf32 = float32(math.Inf(1))

func fuzz(f *testing.F, syntax Syntax, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := Parse("file", syntax, data)
		if (err == nil) == (doc == nil) {
			t.Fatalf("document %v and error %v", doc, err)
		}
		if err != nil {
			return
		}
		lines := 1
		for _, c := range data {
			if c == '\n' || c == '\r' {
				lines++
			}
		}
		if n := check(t, doc.Root, lines, 1); n > MaxNodes {
			t.Fatalf("%d nodes", n)
		}
		_ = doc.Decode(new(sample), schema)
	})
}

// check counts the nodes and fails the test when one is not in the document or nested too deeply.
func check(t *testing.T, n *Node, lines, depth int) int {
	if n.Line < 1 || n.Line > lines+1 {
		t.Fatalf("node in line %d of %d", n.Line, lines)
	}
	if depth > MaxDepth+1 {
		t.Fatalf("depth %d", depth)
	}
	count := 1
	for _, f := range n.Fields {
		count += check(t, f.Value, lines, depth+1)
	}
	for _, item := range n.Items {
		count += check(t, item, lines, depth+1)
	}
	return count
}

func FuzzPbtxt(f *testing.F) {
	fuzz(f, Pbtxt, "", "name: \"a\\x41\\u00e9\" 'b' # c\ncount: -0x1F\n",
		"part { id: 1 } parts < id: 2 >; parts [ {id: 3} ]",
		"dims: [1, 2] dims: 3, rate: 1.5f mean: -inf on: t", `tags { key: "a" value: "b" } deep: [{key: "x", value {id: 1}}]`,
		"mode: FAST colour: 1 huge: 18446744073709551615", "self { self { self { } } }", `a: "\777\q`)
}

func FuzzYAML(f *testing.F) {
	fuzz(f, YAML, "", "name: a\ndims: [1, 2]\nparts:\n- id: 1\n", "tags: {a: b}\ndeep:\n  x: {id: 1}\n", "a: &x 1\nb: *x",
		"<<: {a: 1}",
		"on: true\nrate: .inf\nmean: 1_0\nwait: 3s\nself: {self: {}}", "? [a]\n: |\n  b\n", "--- \na: !!binary x\n...\n---\n",
		"a: \"\\x41\"\n# c")
}

func FuzzJSON(f *testing.F) {
	fuzz(f, JSON, "", `{"name":"a","dims":[1,2],"parts":[{"id":"1"}]}`, `{"tags":{"a":"b","a":"c"}}`,
		`{"on":true,"rate":1e99,"part":null}`,
		`{"self":{"self":{}},"mode":1,"colour":"RED"}`, "{\n\"a\"\n:\n01}", "[]")
}
