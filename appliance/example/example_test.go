package example

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
)

func tensor(name string, data ...byte) edgewise.Tensor {
	data = append([]byte{}, data...) // not nil
	return edgewise.Tensor{Name: name, Type: edgewise.Uint8, Shape: edgewise.Shape{int64(len(data))}, Data: data}
}

func text(name string, elements ...string) edgewise.Tensor {
	t := edgewise.Tensor{Name: name, Type: edgewise.Bytes, Shape: edgewise.Shape{int64(len(elements))}, Data: []byte{}}
	for _, e := range elements {
		t.Data = edgewise.AppendElement(t.Data, e)
	}
	return t
}

// all is an example that has something in each field.
func all() *Example {
	return &Example{
		Model:      edgewise.ModelID{Name: "ocr", Version: 7},
		Inputs:     []edgewise.Tensor{tensor("picture", 1, 2, 0xff), text("hint", "", "ü\x00\n{")},
		Wanted:     []string{"text"},
		Parameters: map[string]any{"language": "de", "beam": int64(4), "greedy": true, "cut": 2.0},
		Sequence:   edgewise.Sequence{ID: 1<<64 - 1, Start: true},
		Outputs:    []edgewise.Tensor{text("text", "Straße"), tensor("empty")},
		Arrived:    time.Date(2026, 2, 3, 4, 5, 6, 789, time.UTC), Took: 1234567,
		MaskedInputs: []string{"hint"}, MaskedOutputs: []string{"empty"},
	}
}

func TestAnExampleIsReadAsItWasWritten(t *testing.T) {
	failed, named, bare := all(), all(), &Example{Model: edgewise.ModelID{Name: "m"}}
	failed.Outputs, failed.Error = nil, `step "x" refused: \`
	named.Sequence = edgewise.Sequence{Name: "camera 1", End: true}
	bare.Inputs, bare.Outputs = []edgewise.Tensor{tensor("x", 1)}, []edgewise.Tensor{tensor("y", 2)}
	for name, want := range map[string]*Example{"all": all(), "failed": failed, "named sequence": named, "bare": bare} {
		t.Run(name, func(t *testing.T) {
			data, err := Encode(want)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Wanted) == 0 {
				got.Wanted = nil
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestAnEncoderWritesWhatEncodeDoesAndKeepsABoundedMemory(t *testing.T) {
	var c Encoder
	var used *byte
	large := &Example{Model: edgewise.ModelID{Name: "m"}, Inputs: []edgewise.Tensor{tensor("x", make([]byte, maxKept)...)}}
	for i, e := range []*Example{all(), large, {Model: edgewise.ModelID{Name: "m"}}, all()} {
		want, err := Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.Encode(e); err != nil || !bytes.Equal(got, want) {
			t.Errorf("example %d: got %d bytes, %v, want %d", i, len(got), err, len(want))
		}
		if n := cap(c.memory); n > maxKept {
			t.Errorf("example %d: %d bytes are kept", i, n)
		}
		if i == 0 {
			used = &c.memory[0]
		} else if used != &c.memory[0] {
			t.Errorf("example %d is in other memory", i)
		}
	}
}

func TestTheRequestOfAnExampleIsThatOfItsModel(t *testing.T) {
	req := all().Request(9)
	if req.Model != (edgewise.ModelID{Name: "ocr", Version: 9}) || len(req.Inputs) != 2 || req.Outputs[0] != "text" {
		t.Errorf("got %+v", req)
	}
	resp := &edgewise.Response{Model: req.Model, Outputs: all().Outputs}
	if e := Of(req, resp); e.Model != req.Model || len(e.Outputs) != 2 || e.Sequence != req.Sequence {
		t.Errorf("got %+v", e)
	}
}

func TestWhatHasNoFormIsRefused(t *testing.T) {
	bad, odd, large := all(), all(), all()
	bad.Outputs[0].Data = bad.Outputs[0].Data[1:]
	odd.Parameters["x"] = []int{1}
	large.Inputs[0] = tensor("picture", make([]byte, MaxBytes)...)
	for name, e := range map[string]*Example{"a tensor that is not well-formed": bad, "a parameter": odd, "too large": large} {
		if data, err := Encode(e); err == nil {
			t.Errorf("%s: %d bytes are encoded", name, len(data))
		}
	}
	large.Error = "\xff" + strings.Repeat("x", 2*maxError)
	large.Inputs, large.Outputs = nil, nil
	data, err := Encode(large)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := Decode(data); err != nil || len(e.Error) != maxError || e.Error[0] != '?' {
		t.Errorf("a long error: got %+v, %v", e, err)
	}
}

func TestADamagedExampleIsRefused(t *testing.T) {
	data, err := Encode(all())
	if err != nil {
		t.Fatal(err)
	}
	change := func(from, to string) []byte { return bytes.Replace(data, []byte(from), []byte(to), 1) }
	for name, test := range map[string]struct {
		data []byte
		kind edgewise.Kind
	}{
		"empty":            {nil, edgewise.Invalid},
		"no end of header": {bytes.Repeat([]byte{' '}, MaxHeader+2), edgewise.Invalid},
		"no JSON":          {[]byte("x\n"), edgewise.Invalid},
		"something behind": {append([]byte("{} 1\n"), data...), edgewise.Invalid},
		"a newer form":     {change(`example":1`, `example":2,"new":1`), edgewise.Unsupported},
		"another form":     {change(`example":1`, `example":0`), edgewise.Invalid},
		"unknown member":   {change(`"model"`, `"odd":1,"model"`), edgewise.Invalid},
		"bad name":         {change(`"ocr"`, `"../x"`), edgewise.Invalid},
		"bad version":      {change(`"version":7`, `"version":-7`), edgewise.Invalid},
		"cut off":          {data[:len(data)-1], edgewise.Invalid},
		"too long":         {append(bytes.Clone(data), 0), edgewise.Invalid},
		"bad sizes":        {change(`"request":{"json":`, `"request":{"json":9`), edgewise.Invalid},
		"answer and error": {change(`"arrived"`, `"error":"x","arrived"`), edgewise.Invalid},
		"too large":        {make([]byte, MaxBytes+1), edgewise.TooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Decode(test.data); edgewise.KindOf(err) != test.kind {
				t.Errorf("got %v, want %v", err, test.kind)
			}
		})
	}
}

// FuzzDecode holds that no bytes make Decode fail in another way than by an error, and that what it accepts is written
// and read again as it is.
func FuzzDecode(f *testing.F) {
	data, err := Encode(all())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"edgewise_example":1,"model":"m","version":1,"request":{"json":13,"all":13},"error":"x"}` + "\n" + `{"inputs":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := Decode(data)
		if err != nil {
			return
		}
		again, err := Encode(e)
		if err != nil {
			t.Fatalf("%+v is read and cannot be written: %v", e, err)
		}
		back, err := Decode(again)
		if err != nil {
			t.Fatalf("%q cannot be read: %v", again, err)
		}
		for i, in := range e.Inputs {
			if !bytes.Equal(in.Data, back.Inputs[i].Data) || in.Name != back.Inputs[i].Name {
				t.Fatalf("input %d is %v, was %v", i, back.Inputs[i], in)
			}
		}
		if len(back.Outputs) != len(e.Outputs) || back.Model != e.Model {
			t.Fatalf("got %+v, want %+v", back, e)
		}
	})
}
