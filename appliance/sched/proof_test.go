package sched

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched/trial"
	"github.com/edgewise-ai/edgewise/scalar"
)

// function is an instance that makes an output of the rows of an input, which have two numbers each.
type function struct {
	rows func(rows [][2]float32) [][2]float32
	err  func(in []edgewise.Tensor) error
	took time.Duration
	runs int
	pads int
}

func (f *function) AllowPadding() { f.pads++ }

func (f *function) Run(ctx context.Context, in []edgewise.Tensor, want []string,
	options edgewise.RunOptions,
) (*edgewise.Result, error) {
	f.runs++
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(f.took * time.Duration(in[0].Shape[0])):
	}
	if f.err != nil {
		if err := f.err(in); err != nil {
			return nil, err
		}
	}
	var rows [][2]float32
	for at := 0; at+8 <= len(in[0].Data); at += 8 {
		number := func(at int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(in[0].Data[at:])) }
		rows = append(rows, [2]float32{number(at), number(at + 4)})
	}
	out := edgewise.Tensor{Name: want[0], Type: edgewise.FP32}
	for _, row := range f.rows(rows) {
		out.Data = append(out.Data, floats(row[0], row[1])...)
	}
	out.Shape = edgewise.Shape{int64(len(out.Data) / 8), 2}
	return &edgewise.Result{Outputs: []edgewise.Tensor{out}, Free: func() {}}, nil
}

func (*function) Close() error { return nil }

// each makes every row of an output of the row of the input.
func each(f func(row [2]float32) [2]float32) func([][2]float32) [][2]float32 {
	return func(rows [][2]float32) [][2]float32 {
		var out [][2]float32
		for _, row := range rows {
			out = append(out, f(row))
		}
		return out
	}
}

func TestRequestsAreMergedOnlyWhereRowsAreSeenToBeIndependent(t *testing.T) {
	double := each(func(r [2]float32) [2]float32 { return [2]float32{2 * r[0], 2 * r[1]} })
	tests := []struct {
		name     string
		instance *function
		change   func(*edgewise.Model)
		proof    *Proof
		merged   bool
		reason   string // a part of it
	}{
		{"rows by themselves", &function{rows: double}, nil, &Proof{}, true, "a trial at load"},
		{"nobody asks", &function{rows: double}, nil, nil, true, "the configuration says so"},
		{"declared", &function{rows: double}, nil, &Proof{Declared: "its author says so"}, true, "its author says so"},
		{"refuted before it runs", &function{rows: double}, nil, &Proof{
			Refuted: "dimensions have other names",
		}, false, "other names"},
		{"the mean of all rows is taken away", &function{rows: func(rows [][2]float32) [][2]float32 {
			mean := float32(0)
			for _, r := range rows {
				mean += r[0] / float32(len(rows))
			}
			return each(func(r [2]float32) [2]float32 { return [2]float32{r[0] - mean, r[1]} })(rows)
		}}, nil, &Proof{}, false, `output "y" of random rows is another one in a batch than alone`},
		{"a sum over the rows before", &function{rows: func(rows [][2]float32) [][2]float32 {
			sum := float32(0)
			return each(func(r [2]float32) [2]float32 { sum += r[0]; return [2]float32{sum, r[1]} })(rows)
		}}, nil, &Proof{}, false, "another one in a batch"},
		{"rows the other way round", &function{rows: func(rows [][2]float32) [][2]float32 {
			var out [][2]float32
			for i := range rows {
				out = append(out, rows[len(rows)-1-i])
			}
			return out
		}}, nil, &Proof{}, false, "another one in a batch"},
		{"how many rows there are", &function{rows: func(rows [][2]float32) [][2]float32 {
			return each(func(r [2]float32) [2]float32 { return [2]float32{r[0], float32(len(rows))} })(rows)
		}}, nil, &Proof{}, false, "another one in a batch"},
		{"another number of rows", &function{
			rows: func(rows [][2]float32) [][2]float32 { return append(rows, rows[0]) },
		}, nil, &Proof{}, false, "dimension 0 is not the batch"},
		{"numbers of its own", &function{
			rows: each(func(r [2]float32) [2]float32 { return [2]float32{r[0], rand.Float32()} }),
		}, nil, &Proof{}, false, "another one in a batch"},
		{"always the same", &function{
			rows: each(func([2]float32) [2]float32 { return [2]float32{1, 2} }),
		}, nil, &Proof{}, false, "was the same for all random rows"},
		{"nothing that is a number", &function{
			rows: each(func([2]float32) [2]float32 { return [2]float32{float32(math.NaN()), 0} }),
		}, nil, &Proof{}, false, "was the same for all random rows"},
		{"another order of adding", &function{rows: func(rows [][2]float32) [][2]float32 {
			return each(
				func(r [2]float32) [2]float32 { return [2]float32{r[0] * (1 + 1e-6*float32(len(rows))), r[1]} },
			)(rows)
		}}, nil, &Proof{}, true, "a trial at load"},
		{"it refuses all", &function{
			rows: double, err: func([]edgewise.Tensor) error { return errors.New("an index is out of range") },
		}, nil, &Proof{}, false, "takes no random inputs: an index is out of range"},
		{"it refuses batches", &function{rows: double, err: func(in []edgewise.Tensor) error {
			if in[0].Shape[0] > 3 {
				return errors.New("too many rows")
			}
			return nil
		}}, nil, &Proof{}, false, "too many rows"},
		{"it refuses large numbers", &function{rows: double, err: func(in []edgewise.Tensor) error {
			if trial.Magnitude(&in[0]) > 1 {
				return errors.New("too large")
			}
			return nil
		}}, nil, &Proof{}, true, "a trial at load"},
		{"too slow to try", &function{
			rows: double, took: time.Second,
		}, nil, &Proof{}, false, "a run of one row took 1s"},
		{"too slow to end", &function{rows: double, took: time.Hour}, nil, &Proof{}, false, "a run of one row took 2s"},
		{
			"too large to try", &function{rows: double},
			func(m *edgewise.Model) { m.Input[0].Dims = edgewise.Shape{100 << 20} }, &Proof{}, false,
			`no trial can be made: input "x": shape [1,104857600] has a negative size or takes more than`,
		},
		{
			"a variable size", &function{rows: double},
			func(m *edgewise.Model) { m.Input[0].Dims = edgewise.Shape{-1, 2} }, &Proof{}, false, "has shape",
		},
		{
			"batches of two", &function{rows: double}, func(m *edgewise.Model) { m.MaxBatchSize = 2 }, &Proof{}, true,
			"a trial at load",
		},
		{
			"no batches", &function{rows: double}, func(m *edgewise.Model) { m.DynamicBatching = nil }, &Proof{}, false,
			"no dynamic_batching",
		},
		{
			"batches of one", &function{rows: double}, func(m *edgewise.Model) { m.MaxBatchSize = 1 }, &Proof{}, false,
			"max_batch_size is 1",
		},
		{
			"no batch dimension", &function{rows: double},
			func(m *edgewise.Model) { m.MaxBatchSize, m.DynamicBatching = 0, nil }, &Proof{}, false,
			"max_batch_size is 0",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := model()
				m.MaxBatchSize, m.DynamicBatching = 16, &edgewise.DynamicBatching{MaxQueueDelay: 1} // no trial of whether they pay
				if test.change != nil {
					test.change(m)
				}
				s := schedulerOf(test.instance, m, Config{Instances: 1, MaxQueue: 10, Proof: test.proof})
				if test.proof != nil && test.proof.Declared == "" && s.Statistics().Batching.Merged {
					t.Error("merged before it has run")
				}
				if err := s.Warm(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				b := s.Statistics().Batching
				if b.Merged != test.merged || s.queue.single.Load() == test.merged || !strings.Contains(
					b.Reason, test.reason,
				) {
					t.Errorf("%+v, want merged %v because %q", b, test.merged, test.reason)
				}
				if b.Independent != (test.instance.pads > 0) || b.Merged && !b.Independent {
					t.Errorf("%+v, padding allowed %d times", b, test.instance.pads)
				}
				if st := s.Statistics(); st.ExecutionCount != 0 || st.Success.Count != 0 {
					t.Errorf("the proof is in the statistics: %+v", st)
				}
				_ = s.Close()
			})
		})
	}
}

func TestNumbersAreComparedByTheirType(t *testing.T) {
	number := func(t edgewise.DataType, v float64) []byte { return scalar.AppendFloat(nil, t, v) }
	for _, test := range []struct {
		name  string
		t     edgewise.DataType
		a, b  []byte
		scale float64
		same  bool
	}{
		{"equal", edgewise.FP32, number(edgewise.FP32, 1), number(edgewise.FP32, 1), 1, true},
		{"rounded", edgewise.FP32, number(edgewise.FP32, 1), number(edgewise.FP32, 1.00001), 1, true},
		{"beside a larger one", edgewise.FP32, number(edgewise.FP32, 0.001), number(edgewise.FP32, 0.002), 100, true},
		{"another", edgewise.FP32, number(edgewise.FP32, 1), number(edgewise.FP32, 1.001), 1, false},
		{"double", edgewise.FP64, number(edgewise.FP64, 1), number(edgewise.FP64, 1.00001), 1, false},
		{"half", edgewise.FP16, number(edgewise.FP16, 1), number(edgewise.FP16, 1.005), 1, true},
		{"another half", edgewise.FP16, number(edgewise.FP16, 1), number(edgewise.FP16, 1.5), 1, false},
		{"brain", edgewise.BF16, number(edgewise.BF16, 1), number(edgewise.BF16, 1.01), 1, true},
		{"no numbers", edgewise.FP32, number(edgewise.FP32, math.NaN()), number(edgewise.FP32, -math.NaN()), 1, true},
		{"one no number", edgewise.FP32, number(edgewise.FP32, math.NaN()), number(edgewise.FP32, 0), 1, false},
		{"infinities", edgewise.FP16, number(edgewise.FP16, math.Inf(1)), number(
			edgewise.FP16, math.Inf(-1),
		), 1, false},
		{"integers", edgewise.Int32, []byte{1, 0, 0, 0}, []byte{2, 0, 0, 0}, 1000, false},
		{"strings", edgewise.Bytes, edgewise.AppendElement(nil, "a"), edgewise.AppendElement(nil, "a"), 0, true},
		{"length", edgewise.FP32, number(edgewise.FP32, 1), nil, 1, false},
	} {
		if got := trial.Alike(test.t, test.a, test.b, test.scale); got != test.same {
			t.Errorf("%s: %v", test.name, got)
		}
	}
	for _, kind := range []edgewise.DataType{edgewise.FP16, edgewise.BF16, edgewise.FP32, edgewise.FP64} {
		for _, v := range []float64{0, 1, -2.5, 1024, 0.00006103515625, 5.9604644775390625e-08} {
			if kind == edgewise.BF16 && v == 1024 {
				continue
			}
			if got := scalar.Float(kind, number(kind, v)); got != v {
				t.Errorf("%v %v is read as %v", kind, v, got)
			}
		}
	}
}
