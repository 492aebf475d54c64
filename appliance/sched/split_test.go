package sched

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/edgewise-ai/edgewise"
)

// FuzzGatherAndSplitAreInverse joins jobs of sizes that the fuzzer picks, hands the inputs back as outputs and wants
// every job to have its own again.
func FuzzGatherAndSplitAreInverse(f *testing.F) {
	f.Add([]byte{1, 2, 3}, uint8(4), uint64(1))
	f.Add([]byte{7}, uint8(0), uint64(2))
	f.Add([]byte{1, 1, 1, 1, 1, 1, 1, 1}, uint8(1), uint64(3))
	f.Fuzz(func(t *testing.T, sizes []byte, width uint8, seed uint64) {
		if len(sizes) == 0 || len(sizes) > 20 {
			return
		}
		list, total := drawnJobs(sizes, int64(width%9), rand.New(rand.NewPCG(seed, 1)))
		var g gatherer
		for range 2 { // the second time in the memory of the first
			batch, err := g.gather(list, total)
			if err != nil {
				t.Fatal(err)
			}
			for i := range batch {
				if len(batch[i].Data) > 0 && uintptr(unsafe.Pointer(&batch[i].Data[0]))%alignment != 0 {
					t.Error("the batch is not aligned")
				}
			}
			if err := split(batch, list, total); err != nil {
				t.Fatal(err)
			}
			for k, j := range list {
				for i := range j.inputs {
					if in, out := j.inputs[i], j.outputs[i]; in.Name != out.Name || in.Type != out.Type ||
						!in.Shape.Equal(out.Shape) || !bytes.Equal(in.Data, out.Data) {
						t.Errorf("job %d: got %+v, want %+v", k, out, in)
					}
				}
			}
		}
	})
}

func drawnJobs(sizes []byte, width int64, r *rand.Rand) (list []*job, total int) {
	for _, size := range sizes {
		j := newJob()
		j.batch = int(size%8) + 1
		rows := int64(j.batch)
		var texts []byte
		for range rows * 2 {
			texts = edgewise.AppendElement(texts, strings.Repeat("x", r.IntN(5)))
		}
		numbers := make([]byte, rows*width*4)
		for i := range numbers {
			numbers[i] = byte(r.Uint32())
		}
		j.inputs = []edgewise.Tensor{
			{Name: "n", Type: edgewise.Int32, Shape: edgewise.Shape{rows, width}, Data: numbers},
			{Name: "t", Type: edgewise.Bytes, Shape: edgewise.Shape{rows, 2}, Data: texts},
			{Name: "v", Type: edgewise.Uint8, Shape: edgewise.Shape{rows}, Data: numbers[:min(len(numbers), 0)]},
		}
		j.inputs[2].Data = make([]byte, rows)
		j.inputs[2].Data[0] = byte(r.Uint32())
		list, total = append(list, j), total+j.batch
	}
	return list, total
}

func TestOutputsThatCannotBeSplit(t *testing.T) {
	two := edgewise.AppendElement(edgewise.AppendElement(nil, "a"), "b")
	tests := []struct {
		name string
		out  edgewise.Tensor
		want string
	}{
		{"scalar", tensor(
			"y", edgewise.Int8, edgewise.Shape{}, []byte{1},
		), `output "y" of a batch of 3 has shape []: dimension 0 is not the batch`},
		{"other dimension 0", tensor(
			"y", edgewise.Int8, edgewise.Shape{1, 3}, []byte{1, 2, 3},
		), `output "y" of a batch of 3 has shape [1,3]: dimension 0 is not the batch`},
		{"too few bytes", tensor(
			"y", edgewise.Int8, edgewise.Shape{3}, []byte{1, 2},
		), `output "y" of a batch of 3: 2 bytes are not shape [3] of type INT8`},
		{"too many bytes", tensor(
			"y", edgewise.Int8, edgewise.Shape{3}, []byte{1, 2, 3, 4},
		), `output "y" of a batch of 3: 4 bytes are not shape [3] of type INT8`},
		{"too few strings", tensor(
			"y", edgewise.Bytes, edgewise.Shape{3}, two,
		), `output "y" of a batch of 3: 10 bytes are not shape [3] of type BYTES`},
		{"cut string", tensor(
			"y", edgewise.Bytes, edgewise.Shape{3}, append(two, 9, 0, 0, 0, 1),
		), `output "y" of a batch of 3: 15 bytes are not shape [3] of type BYTES`},
		{"too many elements", tensor(
			"y", edgewise.FP64, edgewise.Shape{3, 1 << 61}, nil,
		), `output "y" of a batch of 3: 0 bytes are not shape [3,2305843009213693952] of type FP64`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a, b := newJob(), newJob()
			a.batch, b.batch = 1, 2
			err := split([]edgewise.Tensor{test.out}, []*job{a, b}, 3)
			if err == nil || err.Error() != test.want || edgewise.KindOf(err) != edgewise.Internal || a.outputs != nil ||
				b.outputs != nil {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}
