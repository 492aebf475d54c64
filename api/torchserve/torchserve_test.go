package torchserve

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/api/npy"
)

var id = edgewise.ModelID{Name: "m", Version: 1}

// models are those of the tests, by name.
var models = map[string]*edgewise.Model{
	"picture": {
		Input:  []edgewise.ModelInput{{Name: "image", DataType: edgewise.Bytes, Dims: edgewise.Shape{1}}},
		Output: []edgewise.ModelOutput{{Name: "box", DataType: edgewise.FP32, Dims: edgewise.Shape{-1, 4}}},
	},
	"numbers": {
		MaxBatchSize: 4,
		Input:        []edgewise.ModelInput{{Name: "x", DataType: edgewise.FP32, Dims: edgewise.Shape{2}}},
		Output:       []edgewise.ModelOutput{{Name: "y", DataType: edgewise.FP32, Dims: edgewise.Shape{2}}},
	},
	"fixed": {
		Input:  []edgewise.ModelInput{{Name: "x", DataType: edgewise.Uint8, Dims: edgewise.Shape{1, 2}}},
		Output: []edgewise.ModelOutput{{Name: "y", DataType: edgewise.Uint8, Dims: edgewise.Shape{1, 2}}},
	},
	"two": {
		MaxBatchSize: 4,
		Input: []edgewise.ModelInput{
			{Name: "a", DataType: edgewise.Bytes, Dims: edgewise.Shape{1}},
			{Name: "b", DataType: edgewise.Uint8, Dims: edgewise.Shape{-1}},
		},
	},
	"words": {
		MaxBatchSize: 4, Input: []edgewise.ModelInput{{Name: "words", DataType: edgewise.Bytes, Dims: edgewise.Shape{-1, 2}}},
	},
}

func array(t testing.TB, kind edgewise.DataType, shape edgewise.Shape, data ...byte) []byte {
	var file bytes.Buffer
	if err := npy.Write(&file, edgewise.Tensor{Name: "x", Type: kind, Shape: shape, Data: data}); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

const form = "multipart/form-data; boundary=b"

func parts(list ...string) []byte {
	var text strings.Builder
	for i := 0; i < len(list); i += 2 {
		fmt.Fprintf(&text, "--b\r\nContent-Disposition: form-data; name=%q; filename=\"f\"\r\n\r\n%s\r\n", list[i], list[i+1])
	}
	return []byte(text.String() + "--b--\r\n")
}

func TestABodyIsWhatTheInputsOfTheModelSay(t *testing.T) {
	for _, test := range []struct {
		name, model, kind string
		body              []byte
		want              string
	}{
		{"a file", "picture", "image/png", []byte("\x89PNG"), `image BYTES[1] "\x04\x00\x00\x00\x89PNG"`},
		{"a file that reads like JSON", "picture", "text/plain", []byte("[1]"), `image BYTES[1] "\x03\x00\x00\x00[1]"`},
		{"a file without a type", "picture", "", nil, `image BYTES[1] "\x00\x00\x00\x00"`},
		{"a file in a form", "picture", form, parts("data", "x"), `image BYTES[1] "\x01\x00\x00\x00x"`},
		{"a file in JSON", "picture", "application/json", []byte(`{"b64":"aGk="}`), `image BYTES[1] "\x02\x00\x00\x00hi"`},
		{"a file in JSON, named", "picture", "application/json", []byte(`{"data":{"b64":"aGk="}}`), `image BYTES[1] "\x02\x00\x00\x00hi"`},
		{"text in JSON", "picture", "application/json", []byte(`"hi"`), `image BYTES[1] "\x02\x00\x00\x00hi"`},
		{"an array of one row", "fixed", "", array(t, edgewise.Uint8, edgewise.Shape{2}, 1, 2), `x UINT8[1,2] "\x01\x02"`},
		{"an array", "fixed", "", array(t, edgewise.Uint8, edgewise.Shape{1, 2}, 1, 2), `x UINT8[1,2] "\x01\x02"`},
		{"bytes", "fixed", "application/octet-stream", []byte{1, 2}, `x UINT8[1,2] "\x01\x02"`},
		{"JSON of one row", "fixed", "application/json", []byte(`[1,2]`), `x UINT8[1,2] "\x01\x02"`},
		{
			"two parts", "two", form, parts("b", "\x01\x02\x03", "a", "x"),
			`b UINT8[1,3] "\x01\x02\x03"; a BYTES[1,1] "\x01\x00\x00\x00x"`,
		},
		{"two members", "two", "application/json", []byte(`{"a":"x","b":[1,2]}`), `a BYTES[1,1] "\x01\x00\x00\x00x"; b UINT8[1,2] "\x01\x02"`},
		{"words", "words", "application/json", []byte(`[["a","b"]]`), `words BYTES[1,1,2] "\x01\x00\x00\x00a\x01\x00\x00\x00b"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := Decode(kserve.NewDecoder(kserve.Limits{}), id, models[test.model], test.kind, test.body)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Release()
			var got []string
			for _, in := range r.Inputs {
				got = append(got, fmt.Sprintf("%s %v%v %q", in.Name, in.Type, in.Shape, in.Data))
			}
			if text := strings.Join(got, "; "); text != test.want {
				t.Errorf("got  %s\nwant %s", text, test.want)
			}
		})
	}
}

func TestBodiesThatTheModelCannotTakeAreRefused(t *testing.T) {
	for _, test := range []struct {
		name, model, kind string
		body              []byte
		want              string
	}{
		{"a file for two inputs", "two", "", []byte("x"), "the model has the inputs a, b: send JSON"},
		{"a picture for numbers", "numbers", "image/png", []byte("\x89PNG"), "takes 8 bytes, and the body has 4"},
		{"an array of another type", "fixed", "", array(t, edgewise.Int8, edgewise.Shape{2}, 1, 2), "its elements are i1"},
		{"an array that is cut", "fixed", "", array(t, edgewise.Uint8, edgewise.Shape{2}, 1, 2)[:40], "NumPy"},
		{"a form without its boundary", "picture", "multipart/form-data", parts("data", "x"), "not readable"},
		{"a form that is cut", "picture", form, bytes.TrimSuffix(parts("data", "x"), []byte("\r\n--b--\r\n")), "not readable"},
		{"an empty form", "picture", form, parts(), "no parts"},
		{"a part twice", "picture", form, parts("data", "x", "image", "y"), "already exists"},
		{"words as a file", "words", "", []byte("x"), "not one element"},
		{"bad JSON", "picture", "application/json", []byte(`{`), "Missing a name"},
		{"a member twice", "picture", "application/json", []byte(`{"data":"a","image":"b"}`), "twice"},
		{"ragged JSON", "numbers", "application/json", []byte(`[[1,2],[1]]`), "x[1] is an array of 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Decode(kserve.NewDecoder(kserve.Limits{}), id, models[test.model], test.kind, test.body)
			if err == nil || edgewise.KindOf(err) != edgewise.Invalid || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v: want %s", err, test.want)
			}
		})
	}
}

func TestAnAnswerIsWhatAHandlerWouldReturn(t *testing.T) {
	element := func(s string) []byte { return edgewise.AppendElement(nil, s) }
	for _, test := range []struct {
		name       string
		outputs    []edgewise.Tensor
		body, kind string
	}{
		{
			"text",
			[]edgewise.Tensor{{Name: "t", Type: edgewise.Bytes, Shape: edgewise.Shape{1}, Data: element("<b>hi</b>")}},
			"<b>hi</b>", "text/plain; charset=utf-8",
		},
		{
			"JSON",
			[]edgewise.Tensor{{Name: "t", Type: edgewise.Bytes, Shape: edgewise.Shape{1, 1}, Data: element(` {"a":1}`)}},
			` {"a":1}`, "application/json",
		},
		{
			"a picture",
			[]edgewise.Tensor{{Name: "t", Type: edgewise.Bytes, Shape: edgewise.Shape{1}, Data: element("\x89PNG\r\n\x1a\n")}},
			"\x89PNG\r\n\x1a\n", "image/png",
		},
		{
			"bytes",
			[]edgewise.Tensor{{Name: "t", Type: edgewise.Bytes, Shape: edgewise.Shape{1}, Data: element("\xff\x00")}},
			"\xff\x00", "application/octet-stream",
		},
		{
			"several", []edgewise.Tensor{
				{Name: "t", Type: edgewise.Bytes, Shape: edgewise.Shape{2}, Data: append(element("a"), element("\xff")...)},
				{Name: "n", Type: edgewise.Uint8, Shape: edgewise.Shape{1, 2}, Data: []byte{1, 2}},
			}, `{"t":["a",{"b64":"/w=="}],"n":[[1,2]]}`, "application/json",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &Request{model: models["picture"], single: true}
			body, kind, err := r.Append(nil, &edgewise.Response{Outputs: test.outputs}, func(string) []string { return nil })
			if err != nil || string(body) != test.body || kind != test.kind {
				t.Errorf("%q %s %v", body, kind, err)
			}
		})
	}
}

// FuzzDecode checks that no body panics the reader, and that what it accepts is well-formed tensors.
func FuzzDecode(f *testing.F) {
	for model := range 5 {
		f.Add([]byte(`{"a":"x","b":[1,2]}`), "application/json", uint8(model))
		f.Add([]byte(`[[1,2]]`), "", uint8(model))
		f.Add(parts("data", "x", "b", "\x01"), form, uint8(model))
		f.Add(array(f, edgewise.Uint8, edgewise.Shape{1, 2}, 1, 2), "", uint8(model))
	}
	d := kserve.NewDecoder(kserve.Limits{MaxDecoded: 1 << 20})
	names := []string{"picture", "numbers", "fixed", "two", "words"}
	f.Fuzz(func(t *testing.T, body []byte, kind string, which uint8) {
		r, err := Decode(d, id, models[names[int(which)%len(names)]], kind, bytes.Clone(body))
		if err != nil {
			if kind := edgewise.KindOf(err); kind != edgewise.Invalid && kind != edgewise.TooLarge {
				t.Fatalf("kind %v: %v", kind, err)
			}
			return
		}
		defer r.Release()
		outputs := []edgewise.Tensor{}
		for _, in := range r.Inputs {
			if in.Check() == nil {
				outputs = append(outputs, in)
			}
		}
		labels := func(string) []string { return []string{"a", "b", "a"} }
		if _, _, err := r.Append(nil, &edgewise.Response{Outputs: outputs}, labels); err != nil {
			t.Fatal(err)
		}
	})
}
