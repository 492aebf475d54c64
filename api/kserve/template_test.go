package kserve

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/edgewise-ai/edgewise"
)

const (
	headOfOne = `{"id":"7","parameters":{"sequence_id":3,"sequence_start":true,"binary_data_output":true},"inputs":[{"name":"a","datatype":"UINT8","shape":[1,2],` +
		`"parameters":{"binary_data_size":2}},{"name":"b","datatype":"INT16","shape":[],"parameters":{"binary_data_size":2}}],"outputs":[{"name":"y","parameters":{"classification":1}}]}`
	headOfMany = `{"inputs":[{"name":"a","datatype":"UINT8","shape":[3],"parameters":{"binary_data_size":3}}]}`
)

// A decoder that has seen a head before says of it what one says that has not, with the bytes of the body at hand.
func TestHeadsThatComeAgainSayTheSame(t *testing.T) {
	for _, c := range []struct{ name, head, tensors string }{
		{"two inputs of a sequence", headOfOne, "ABCD"},
		{"one input", headOfMany, "ABC"},
		{"custom parameters are the caller's own", `{"parameters":{"mine":1},"inputs":[{"name":"a","datatype":"UINT8","shape":[1],"parameters":{"binary_data_size":1}}]}`, "A"},
		{"tensors as JSON", `{"inputs":[{"name":"a","datatype":"UINT8","shape":[1],"data":[5]}]}`, ""},
		{"tensors as JSON in JSON's own time", "{ \"inputs\" : [ {\"data\":\t[ [1, 2] , [3,4]],\"shape\":[2 ,2],\"datatype\":\"FP32\",\"name\":\"a\"}\n, {\"name\":\"b\",\"shape\":[0],\"datatype\":\"INT8\",\"data\":[]} ] }", ""},
		{"tensors of both kinds", `{"inputs":[{"name":"a","datatype":"UINT8","shape":[1],"data":[5]},{"name":"b","datatype":"UINT8","shape":[1],"parameters":{"binary_data_size":1}},` +
			`{"name":"c","datatype":"BOOL","shape":[2],"data":[true,0]}]}`, "A"},
		{"strings", `{"inputs":[{"name":"a","datatype":"BYTES","shape":[2],"data":["x","yz"]}]}`, ""},
		{"an input of nothing without elements", `{"inputs":[{"name":"a","datatype":"UINT8","shape":[0]}]}`, ""},
		{"a head over the limit", fmt.Sprintf(`{"id":"%0*d","inputs":[{"name":"a","datatype":"UINT8","shape":[1],"parameters":{"binary_data_size":1}}]}`, maxTemplate, 1), "A"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &Decoder{lim: Limits{}.WithDefaults()}
			r := &InferRequest{names: map[string]string{}}
			for round := range 5 {
				body := []byte(c.head + c.tensors)
				want, err := NewDecoder(Limits{}).Infer(model, body, len(c.head))
				if err != nil {
					t.Fatal(err)
				}
				r.decoder, r.Model = d, model
				if err := d.decode(r, body[:len(c.head)]); err != nil {
					t.Fatal(err)
				}
				if err := r.takeBinary(body[len(c.head):], len(c.head)); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want.Request, r.Request) + cmp.Diff(want.Answers, r.Answers) + cmp.Diff(want.Shared, r.Shared) + cmp.Diff(want.BinaryOutput, r.BinaryOutput); diff != "" {
					t.Fatalf("round %d: %s", round, diff)
				}
				for i := range r.Inputs { // what users do to their request is nobody else's matter
					clear(r.Inputs[i].Shape)
					r.Inputs[i].Name, r.Inputs[i].Data = "mine", nil
				}
				r.Release()
			}
		})
	}
}

// around returns a text with two inputs whose elements are these.
func around(first, second string) string {
	return `{"id":"7","inputs":[{"name":"a","datatype":"FP32","shape":[1,2],"data":` + first + `},{"name":"b","datatype":"INT8","shape":[1],"data":` + second + `}],"outputs":[{"name":"y"}]}`
}

// What a decoder that knows the text around says of other elements, and of what only begins alike, is what one says that knows nothing.
func TestOtherElementsInATextThatComesAgain(t *testing.T) {
	usual := around("[1,2]", "[3]")
	for _, text := range []string{
		usual, around("[-4.5e2,7]", "[-128]"), around("[[8,9]]", " [1]"), around("[ 8 , 9 ]", "[1 ]"), around("[NaN,-Infinity]", "[1]"),
		around("[1]", "[3]"), around("[1,2,3]", "[3]"), around("[1,2]", "[]"), around("[1,2]", "[300]"), around("[1,2", "[3]"), around("[1,,2]", "[3]"), around("[1,2]", "null"),
		around("[[[[1,2]]]]", "[3]"), around("[[[[[1,2]]]]]", "[3]"), around("[1,2]}]}", "[3]"), around("[1,2]", `["x"]`),
		usual[:strings.LastIndex(usual, "[1,2]")] + around("", ""), // its beginning, and all of it without elements
		usual + " ", usual + "x", usual[:len(usual)-1], usual[:len(usual)/2], "", usual[:40], around("[1,2]", "[3]") + around("[1,2]", "[3]"),
	} {
		t.Run(text, func(t *testing.T) {
			heldAgainstAFreshOne(t, Limits{MaxDepth: 7, MaxDecoded: 12}, []byte(usual), []byte(text))
		})
	}
}

// TestPiecesOfATextInAnyOrder puts texts together from the parts of one that is known.
func TestPiecesOfATextInAnyOrder(t *testing.T) {
	usual := around("[1,2]", "[3]")
	first, second := strings.LastIndex(usual, "[1,2]"), strings.LastIndex(usual, "[3]")
	pieces := []string{usual[:first], "[1,2]", usual[first+len("[1,2]") : second], "[3]", usual[second+len("[3]"):], " ", "[", "]", ","}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		text := ""
		for n := range 1 + rng.IntN(8) {
			if at := rng.IntN(len(pieces)); rng.IntN(4) > 0 && n < 5 { // mostly what comes next
				text += pieces[n]
			} else {
				text += pieces[at]
			}
		}
		heldAgainstAFreshOne(t, Limits{MaxDepth: 7}, []byte(usual), []byte(text))
	}
}

// FuzzTextThatComesAgain holds a decoder that has read a text twice against one that has read nothing.
func FuzzTextThatComesAgain(f *testing.F) {
	f.Add([]byte(around("[1,2]", "[3]")), []byte(around("[5,6]", "[7]")))
	f.Add([]byte(headOfMany), []byte(headOfOne))
	f.Fuzz(func(t *testing.T, before, text []byte) {
		heldAgainstAFreshOne(t, Limits{MaxDecoded: 1 << 20}, before, text)
	})
}

// heldAgainstAFreshOne decodes text, and before again, by a request that has decoded before, and by new ones.
func heldAgainstAFreshOne(t *testing.T, lim Limits, before, text []byte) {
	t.Helper()
	d := NewDecoder(lim)
	r := &InferRequest{names: map[string]string{}}
	for n, text := range [][]byte{before, before, before, text, before, text, text, text} {
		if n == 2 && lim.MaxDepth > 0 && !r.template.filled {
			t.Fatal("a text that came twice is not known")
		}
		fresh := &InferRequest{names: map[string]string{}, Request: edgewise.Request{Model: model}, decoder: d}
		r.decoder, r.Model = d, model
		want, got := d.decode(fresh, text), d.decode(r, text)
		if diff := cmp.Diff(fmt.Sprint(want), fmt.Sprint(got)); diff != "" {
			t.Fatalf("text %d: %s", n, diff)
		}
		if want == nil {
			if diff := cmp.Diff(fresh.Request, r.Request, cmpopts.EquateEmpty()) + cmp.Diff(fresh.Answers, r.Answers, cmpopts.EquateEmpty()) + cmp.Diff(fresh.Shared, r.Shared, cmpopts.EquateEmpty()) +
				cmp.Diff(fresh.binary, r.binary, cmpopts.EquateEmpty()) + cmp.Diff(fresh.BinaryOutput, r.BinaryOutput); diff != "" {
				t.Fatalf("text %d: %s", n, diff)
			}
		}
		r.Release()
	}
}

// A head that differs from the one before in a byte is read anew.
func TestAnotherHeadIsNotTakenForTheOneBefore(t *testing.T) {
	r := &InferRequest{names: map[string]string{}}
	d := NewDecoder(Limits{})
	for round := range 9 {
		head := fmt.Sprintf(`{"inputs":[{"name":"x%d","datatype":"UINT8","shape":[3],"parameters":{"binary_data_size":3}}]}`, round/3)
		r.decoder = d
		if err := d.decode(r, []byte(head)); err != nil {
			t.Fatal(err)
		}
		want := edgewise.Tensor{Name: fmt.Sprintf("x%d", round/3), Type: edgewise.Uint8, Shape: edgewise.Shape{3}}
		if diff := cmp.Diff([]edgewise.Tensor{want}, r.Inputs); diff != "" {
			t.Fatalf("round %d: %s", round, diff)
		}
		r.Release()
	}
}

func BenchmarkTextThatComesAgain(b *testing.B) {
	d := NewDecoder(Limits{})
	body := []byte(around("[0.5239421,0.12345678]", "[3]"))
	b.ReportAllocs()
	for b.Loop() {
		r, err := d.Infer(model, body, -1)
		if err != nil {
			b.Fatal(err)
		}
		r.Release()
	}
}

func BenchmarkHeadThatComesAgain(b *testing.B) {
	d := NewDecoder(Limits{})
	body := []byte(headOfMany + "ABC")
	b.ReportAllocs()
	for b.Loop() {
		r, err := d.Infer(model, body, len(headOfMany))
		if err != nil {
			b.Fatal(err)
		}
		r.Release()
	}
}
