package kserve

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

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
