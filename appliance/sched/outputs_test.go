package sched

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// shower answers each wanted output with the first byte of its name added to the input, and notes what it was asked
// for.
type shower struct{ runs []string }

func (s *shower) Run(_ context.Context, in []edgewise.Tensor, want []string, _ edgewise.RunOptions) (*edgewise.Result,
	error,
) {
	time.Sleep(10 * time.Millisecond)
	s.runs = append(s.runs, strings.Join(want, ""))
	r := &edgewise.Result{Free: func() {}}
	for _, name := range want {
		data := make([]byte, len(in[0].Data))
		for i := range data {
			data[i] = in[0].Data[i] + name[0]
		}
		r.Outputs = append(r.Outputs, edgewise.Tensor{Name: name, Type: edgewise.Uint8, Shape: in[0].Shape, Data: data})
	}
	return r, nil
}

func (s *shower) Close() error { return nil }

func TestEachRequestOfABatchGetsTheOutputsThatItWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &edgewise.Model{
			Name: "show", MaxBatchSize: 8, DynamicBatching: &edgewise.DynamicBatching{},
			Input: []edgewise.ModelInput{{Name: "x", DataType: edgewise.Uint8, Dims: edgewise.Shape{1}}},
		}
		for _, name := range []string{"a", "b", "c"} {
			m.Output = append(
				m.Output, edgewise.ModelOutput{Name: name, DataType: edgewise.Uint8, Dims: edgewise.Shape{1}},
			)
		}
		i := &shower{}
		s := schedulerOf(i, m, Config{Instances: 1, MaxQueue: 100})
		var all sync.WaitGroup
		for n, want := range []string{"a", "b", "ca", "b", "c", "b", ""} {
			all.Go(func() {
				req := &edgewise.Request{
					Inputs: []edgewise.Tensor{
						{Name: "x", Type: edgewise.Uint8, Shape: edgewise.Shape{1, 1}, Data: []byte{byte(n)}},
					},
				}
				if want != "" {
					req.Outputs = strings.Split(want, "")
				} else {
					want = "abc"
				}
				r, err := s.Infer(t.Context(), req)
				if err != nil {
					t.Error(err)
					return
				}
				got := ""
				for _, out := range r.Outputs {
					got += out.Name
					if out.Data[0] != byte(n)+out.Name[0] || len(out.Data) != 1 {
						t.Errorf("request %d: output %s is %v", n, out.Name, out.Data)
					}
				}
				if got != want {
					t.Errorf("request %d: outputs %s, want %s", n, got, want)
				}
				r.Release()
			})
			synctest.Wait()
		}
		all.Wait()
		_ = s.Close()
		if got, want := fmt.Sprint(i.runs), "[a bca]"; got != want {
			t.Errorf("runs asked for %s, want %s", got, want)
		}
	})
}
