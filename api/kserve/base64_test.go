package kserve

import (
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

func TestElementsMayBeBase64(t *testing.T) {
	d := NewDecoder(Limits{})
	decode := func(data string) (*InferRequest, error) {
		return d.Infer(model,
			[]byte(`{"inputs":[{"data":`+data+`,"name":"x","datatype":"BYTES","shape":[2],"parameters":{"content_type":"base64"}}]}`), -1)
	}
	for _, data := range []string{`["/9j/AA==","aGk="]`, `["\/9j\/AA\u003d=","aGk="]`} {
		r, err := decode(data)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(r.Inputs[0].Data), "\x04\x00\x00\x00\xff\xd8\xff\x00\x02\x00\x00\x00hi"; got != want {
			t.Errorf("%s: got %q, want %q", data, got, want)
		}
		r.Release()
	}
	for _, data := range []string{`["aGk=","?"]`, `["aGk=","aGk"]`} {
		if _, err := decode(data); edgewise.KindOf(err) != edgewise.Invalid ||
			!strings.Contains(err.Error(), `input "x": element 1 is not base64`) {
			t.Errorf("%s: %v", data, err)
		}
	}
	r, err := d.Infer(model,
		[]byte(`{"inputs":[{"name":"x","datatype":"BYTES","shape":[1],"parameters":{"content_type":"str"},"data":["aGk="]}]}`), -1)
	if err != nil || string(r.Inputs[0].Data) != "\x04\x00\x00\x00aGk=" {
		t.Errorf("another content type: %v", err)
	}
}
