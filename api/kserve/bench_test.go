package kserve

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// imageBody returns a request with one tensor of 150,528 floats, a picture of 224x224, as clients write it.
func imageBody(bitSize int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	body := []byte(`{"inputs":[{"name":"x","shape":[1,3,224,224],"datatype":"FP32","data":[`)
	for i := range 3 * 224 * 224 {
		if i > 0 {
			body = append(body, ',')
		}
		v := float64(float32(rng.NormFloat64()))
		body = strconv.AppendFloat(body, v, 'f', -1, bitSize)
	}
	return append(body, `]}]}`...)
}

func BenchmarkDecodeFloats(b *testing.B) {
	d := NewDecoder(Limits{})
	for _, form := range []struct {
		name    string
		bitSize int
	}{{"shortest", 32}, {"widened", 64}} { // widened: Python's json of a float32 array
		body := imageBody(form.bitSize)
		b.Run(form.name+"/kserve", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				r, err := d.Infer(edgewise.ModelID{Name: "m"}, body, -1)
				if err != nil {
					b.Fatal(err)
				}
				r.Release()
			}
		})
		b.Run(form.name+"/encoding-json", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := referenceDecode(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type referenceRequest struct {
	Inputs []struct {
		Name     string    `json:"name"`
		Shape    []int64   `json:"shape"`
		Datatype string    `json:"datatype"`
		Data     []float32 `json:"data"`
	} `json:"inputs"`
}

func referenceDecode(body []byte) (r referenceRequest, err error) {
	err = json.Unmarshal(body, &r)
	return r, err
}

const tinyBody = `{"id":"42","inputs":[{"name":"INPUT0","shape":[1,16],"datatype":"FP32","data":[0.5,1,2,3,4,5,6,7,8,` +
	`9,10,11,12,13,14,15.25]},` +
	`{"name":"INPUT1","shape":[1,16],"datatype":"FP32","data":[0.5,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15.25]}],"outputs":[{"name":"OUTPUT0"}]}`

func BenchmarkDecodeTiny(b *testing.B) {
	body := []byte(tinyBody)
	b.Run("kserve", func(b *testing.B) {
		d := NewDecoder(Limits{})
		b.ReportAllocs()
		for b.Loop() {
			r, err := d.Infer(edgewise.ModelID{Name: "m"}, body, -1)
			if err != nil {
				b.Fatal(err)
			}
			r.Release()
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := referenceDecode(body); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkEncodeFloats(b *testing.B) {
	data := make([]byte, 4*3*224*224)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := 0; i < len(data); i += 4 {
		putFloat(data[i:], float32(rng.NormFloat64()))
	}
	resp := &edgewise.Response{
		Model:   edgewise.ModelID{Name: "m", Version: 1},
		Outputs: []edgewise.Tensor{{Name: "y", Type: edgewise.FP32, Shape: edgewise.Shape{3 * 224 * 224}, Data: data}},
	}
	for _, form := range []Form{JSON, Binary} {
		b.Run(form.String(), func(b *testing.B) {
			req := &InferRequest{BinaryOutput: form == Binary}
			body, _, err := AppendInferResponse(nil, req, resp)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if body, _, err = AppendInferResponse(body[:0], req, resp); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func putFloat(dst []byte, v float32) {
	bits := math.Float32bits(v)
	dst[0], dst[1], dst[2], dst[3] = byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24)
}
