package tensorflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/scalar"
)

var id = edgewise.ModelID{Name: "m", Version: 2}

func input(name string, t edgewise.DataType, dims ...int64) edgewise.ModelInput {
	return edgewise.ModelInput{Name: name, DataType: t, Dims: dims}
}

func output(name string, t edgewise.DataType, dims ...int64) edgewise.ModelOutput {
	return edgewise.ModelOutput{Name: name, DataType: t, Dims: dims}
}

// models are those of the tests, by name.
var models = map[string]*edgewise.Model{
	"batched": {
		MaxBatchSize: 8, Input: []edgewise.ModelInput{input("x", edgewise.FP32, 2)},
		Output: []edgewise.ModelOutput{output("y", edgewise.FP32, 2)},
	},
	"open": {
		Input:  []edgewise.ModelInput{input("x", edgewise.FP64, -1, -1)},
		Output: []edgewise.ModelOutput{output("y", edgewise.FP64, -1)},
	},
	"one": {
		Input:  []edgewise.ModelInput{input("image", edgewise.Bytes, 1)},
		Output: []edgewise.ModelOutput{output("box", edgewise.FP32, -1, 4), output("score", edgewise.FP32, -1)},
	},
	"texts": {
		MaxBatchSize: 8, Input: []edgewise.ModelInput{input("text", edgewise.Bytes, 1)},
		Output: []edgewise.ModelOutput{output("label", edgewise.Bytes, 1)},
	},
	"two": {
		MaxBatchSize: 8,
		Input: []edgewise.ModelInput{
			input("a", edgewise.Int32, -1), input("b", edgewise.Bool, 1),
			{Name: "c", DataType: edgewise.FP16, Dims: edgewise.Shape{1}, Optional: true},
		},
		Output: []edgewise.ModelOutput{output("y", edgewise.Int64, 1), output("z", edgewise.Bytes, 1)},
	},
}

// show writes the inputs of a request.
func show(r *Request) string {
	var list []string
	for _, t := range r.Inputs {
		var values []string
		if t.Type == edgewise.Bytes {
			for e := range edgewise.Elements(t.Data) {
				values = append(values, fmt.Sprintf("%q", e))
			}
		} else {
			for at := 0; at < len(t.Data); at += int(t.Type.Size()) {
				if t.Type.IsFloat() {
					values = append(values, fmt.Sprint(scalar.Float(t.Type, t.Data[at:])))
				} else {
					values = append(values, string(scalar.AppendInteger(nil, t.Type, t.Data[at:])))
				}
			}
		}
		list = append(list, fmt.Sprintf("%s %v%v %s", t.Name, t.Type, t.Shape, strings.Join(values, " ")))
	}
	return strings.Join(list, "; ")
}

func TestPredictReadsRowsAndColumns(t *testing.T) {
	for _, test := range []struct{ name, model, body, want string }{
		{"rows of one input", "batched", `{"instances":[[1,2],[3,4.5]]}`, "x FP32[2,2] 1 2 3 4.5"},
		{"rows with white space", "batched", "{ \"instances\" :\n[ [1.0, 2.0], [ 3 ,4 ] ] }", "x FP32[2,2] 1 2 3 4"},
		{"rows with names", "batched", `{"instances":[{"x":[1,2]},{"x":[3,4]}]}`, "x FP32[2,2] 1 2 3 4"},
		{"words for numbers", "batched", `{"instances":[[NaN,-Infinity],[Infinity,-1]]}`, "x FP32[2,2] NaN -Inf +Inf -1"},
		{"words between numbers", "batched", `{"instances":[[1,NaN],[-Infinity, 2]]}`, "x FP32[2,2] 1 NaN -Inf 2"},
		{"the default signature", "batched", `{"signature_name":"serving_default","instances":[[1,2]]}`, "x FP32[1,2] 1 2"},
		{"members that nobody knows", "batched", `{"x":{"y":[1]},"instances":[[1,2]]}`, "x FP32[1,2] 1 2"},
		{"a column", "batched", `{"inputs":[[1,2]]}`, "x FP32[1,2] 1 2"},
		{"a column with a name", "batched", `{"inputs":{"x":[[1,2]]}}`, "x FP32[1,2] 1 2"},
		{"rows of an open model", "open", `{"instances":[[1,2,3],[4,5,6]]}`, "x FP64[2,3] 1 2 3 4 5 6"},
		{"empty rows", "open", `{"instances":[[],[]]}`, "x FP64[2,0] "},
		{"no rows of a column", "open", `{"inputs":[]}`, "x FP64[0,1] "},
		{"strings as rows", "texts", `{"instances":["a\n","ü"]}`, `text BYTES[2,1] "a\n" "ü"`},
		{"strings in their dimension", "texts", `{"instances":[["a"],["b"]]}`, `text BYTES[2,1] "a" "b"`},
		{"base64", "texts", `{"instances":[{"b64":"AAE="},{"b64":"aGk"}]}`, `text BYTES[2,1] "\x00\x01" "hi"`},
		{"base64 with a name", "texts", `{"instances":[{"text":{"b64":"\u0061Gk="}}]}`, `text BYTES[1,1] "hi"`},
		{"base64 in a column", "texts", `{"inputs":{"b64":"aGk="}}`, `text BYTES[1,1] "hi"`},
		{"one picture", "one", `{"instances":[{"b64":"aGk="}]}`, `image BYTES[1] "hi"`},
		{"one picture with a name", "one", `{"instances":[{"image":{"b64":"aGk="}}]}`, `image BYTES[1] "hi"`},
		{"one picture in its dimension", "one", `{"instances":[[{"b64":"aGk="}]]}`, `image BYTES[1] "hi"`},
		{
			"several inputs of one order", "two", `{"instances":[{"b":true,"a":[1,-2]},{"a":[3,4],"b":false}]}`,
			"b BOOL[2,1] true false; a INT32[2,2] 1 -2 3 4",
		},
		{
			"several columns", "two", `{"inputs":{"a":[[1],[2]],"b":[[true],[false]],"c":[0.5,2]}}`,
			"a INT32[2,1] 1 2; b BOOL[2,1] true false; c FP16[2,1] 0.5 2",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := Predict(kserve.NewDecoder(kserve.Limits{}), id, models[test.model], []byte(test.body))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Release()
			if got := show(r); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestExamplesShareTheirContext(t *testing.T) {
	body := `{"context":{"b":true},"examples":[{"a":[1,2]},{"a":[3,4]}]}`
	r, err := Examples(kserve.NewDecoder(kserve.Limits{}), id, models["two"], []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	if got, want := show(r), "a INT32[2,2] 1 2 3 4; b BOOL[2,1] true true"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestBadBodiesAreRefusedWithTheirPlace(t *testing.T) {
	for _, test := range []struct{ name, model, body, want string }{
		{"empty", "batched", ``, "The document is empty."},
		{"no object", "batched", `[1]`, "the body is an array, want an object"},
		{"no tensors", "batched", `{}`, "Missing 'inputs' or 'instances' key"},
		{"both forms", "batched", `{"instances":[[1,2]],"inputs":[[1,2]]}`, "expecting only one of"},
		{"twice", "batched", `{"instances":[[1,2]],"instances":[[1,2]]}`, "expecting only one of"},
		{"no list", "batched", `{"instances":{"x":1}}`, "expecting 'instances' to be a list, got an object"},
		{"no rows", "batched", `{"instances":[]}`, "no values"},
		{"another signature", "batched", `{"signature_name":"s","instances":[[1,2]]}`, `"s" not found`},
		{"a signature that is no name", "batched", `{"signature_name":1,"instances":[[1,2]]}`, "want a string, got a number"},
		{"ragged", "batched", `{"instances":[[1,2],[3]]}`, "instances[1] is an array of 1, where the ones before have 2"},
		{"too deep", "batched", `{"instances":[[1,2],[3,[4]]]}`, "instances[1][1] is an array, where the ones before are single"},
		{"not deep enough", "batched", `{"instances":[[1,2],3]}`, "instances[1] is a number, where the ones before are arrays"},
		{"ragged with names", "two", `{"instances":[{"a":[1],"b":true},{"a":[1,2],"b":true}]}`, "instances[1].a is an array of 2"},
		{"a row without an input", "two", `{"instances":[{"a":[1],"b":true},{"a":[1]}]}`, "instances[1] has no 'b'"},
		{
			"a row with one more", "two", `{"instances":[{"a":[1],"b":true},{"a":[1],"b":true,"c":1}]}`,
			"instances[1] has 'c', which the ones before",
		},
		{"an input twice", "two", `{"instances":[{"a":[1],"a":[1]}]}`, "instances[0] has 'a' twice"},
		{"an unknown input", "two", `{"instances":[{"q":1}]}`, "instances has 'q', which is no input of the model: it has a, b, c"},
		{"a row that is no object", "two", `{"instances":[{"a":[1],"b":true},1]}`, "instances[1] is a number"},
		{"no names", "two", `{"instances":[[1]]}`, "several inputs"},
		{"a missing input", "two", `{"inputs":{"a":[[1]]}}`, "Missing named input: b"},
		{"an object among rows", "batched", `{"instances":[[1,2],{"x":1}]}`, "instances[1] is an object, where"},
		{"text for a number", "batched", `{"instances":[["a",2]]}`, "want a number"},
		{"a fraction", "two", `{"inputs":{"a":[[1.5]],"b":[[true]]}}`, "1.5 is not an integer"},
		{"too large", "two", `{"inputs":{"a":[[3000000000]],"b":[[true]]}}`, "3000000000 does not fit INT32"},
		{"a number for text", "texts", `{"instances":[1]}`, "want a string"},
		{"bad base64", "texts", `{"instances":[{"b64":"!"}]}`, "not base64"},
		{"more than base64", "texts", `{"instances":["a",{"b64":"aGk=","x":1}]}`, "nothing but"},
		{"base64 that is no text", "texts", `{"instances":["a",{"b64":1}]}`, "nothing but"},
		{"an empty object", "texts", `{"instances":["a",{}]}`, `no "b64"`},
		{"two at once", "one", `{"instances":[{"b64":"aGk="},{"b64":"aGk="}]}`, "takes one at a time"},
		{"behind it", "batched", `{"instances":[[1,2]]} x`, "must not be followed"},
		{"cut off", "batched", `{"instances":[[1,2]`, "Missing a comma or ]"},
		{"deep", "open", `{"inputs":` + strings.Repeat("[", 33) + "1" + strings.Repeat("]", 33) + `}`, "nested in more than 32"},
		{"very deep", "open", `{"x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, "depth"},
		{"a bad number", "batched", `{"instances":[[1,2.]]}`, "Miss fraction"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := Predict(kserve.NewDecoder(kserve.Limits{}), id, models[test.model], []byte(test.body))
			if err == nil {
				t.Fatalf("accepted as %s", show(r))
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v: want %s", err, test.want)
			}
		})
	}
}

func TestABodyIsBounded(t *testing.T) {
	d := kserve.NewDecoder(kserve.Limits{MaxDecoded: 1000, MaxJSON: 5000})
	for name, body := range map[string]string{
		"elements":       `{"inputs":[` + strings.Repeat("1,", 200) + `1]}`,
		"rows":           `{"instances":[` + strings.Repeat(`{"x":[]},`, 200) + `{"x":[]}]}`,
		"text":           `{"x":"` + strings.Repeat("a", 5000) + `","instances":[[1]]}`,
		"shared context": `{"context":{"x":[1,1,1]},"examples":[` + strings.Repeat(`{},`, 40) + `{}]}`,
	} {
		read := Predict
		if strings.Contains(body, "context") {
			read = Examples
		}
		if _, err := read(d, id, models["open"], []byte(body)); err == nil || edgewise.KindOf(err) != edgewise.TooLarge {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzPredict checks that no body panics the reader, and that what it accepts is well-formed tensors.
func FuzzPredict(f *testing.F) {
	for _, body := range []string{
		`{"instances":[[1,2],[3,4.5e1]]}`, `{"instances":[{"a":[1],"b":true},{"a":[2],"b":false}]}`,
		`{"inputs":{"b64":"aGk="}}`, `{"inputs":[[NaN,-Infinity]]}`, `{"context":{"b":true},"examples":[{"a":[1]}]}`,
		`{"instances":[{"b64":"aGk"}, "x"]}`, `{"instances":[[],[]]}`,
	} {
		for model := range 5 {
			f.Add([]byte(body), uint8(model))
		}
	}
	d := kserve.NewDecoder(kserve.Limits{MaxDecoded: 1 << 20})
	names := []string{"batched", "open", "one", "texts", "two"}
	f.Fuzz(func(t *testing.T, body []byte, which uint8) {
		before := bytes.Clone(body)
		for _, decode := range []func() (*Request, error){
			func() (*Request, error) { return Predict(d, id, models[names[int(which)%len(names)]], body) },
			func() (*Request, error) { return Examples(d, id, models[names[int(which)%len(names)]], body) },
		} {
			r, err := decode()
			if !bytes.Equal(body, before) {
				t.Fatal("the body was written to")
			}
			if err != nil {
				if kind := edgewise.KindOf(err); kind != edgewise.Invalid && kind != edgewise.TooLarge {
					t.Fatalf("kind %v: %v", kind, err)
				}
				continue
			}
			if !json.Valid(body) && !bytes.Contains(body, []byte("NaN")) && !bytes.Contains(body, []byte("Infinity")) {
				t.Fatal("accepted what is no JSON")
			}
			for i := range r.Inputs {
				if err := r.Inputs[i].Check(); err != nil {
					t.Fatal(err)
				}
			}
			r.Release()
		}
	})
}
