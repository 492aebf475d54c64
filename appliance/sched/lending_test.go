package sched

import (
	"context"
	"sync"
	"testing"
	"unsafe"

	"github.com/edgewise-ai/edgewise"
)

// lender is a doubler that lends memory and counts the inputs that do not stand in it.
type lender struct {
	doubler
	mu      sync.Mutex
	lent    map[*byte][]byte
	strange int
	refuse  bool
}

func (l *lender) Alloc(n int) ([]byte, func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse {
		return nil, nil, edgewise.Errorf("lender", edgewise.Exhausted, "no memory")
	}
	data := make([]byte, n)
	l.lent[&data[0]] = data
	return data, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.lent, &data[0])
	}, nil
}

func (l *lender) Run(ctx context.Context, in []edgewise.Tensor, want []string) (*edgewise.Result, error) {
	l.mu.Lock()
	for i := range in {
		if l.lent[unsafe.SliceData(in[i].Data)] == nil {
			l.strange++
		}
	}
	l.mu.Unlock()
	return l.doubler.Run(ctx, in, want)
}

func (l *lender) Close() error {
	if len(l.lent) > 0 {
		panic("closed with memory lent")
	}
	return l.doubler.Close()
}

func TestInputsAreGatheredInMemoryOfTheInstance(t *testing.T) {
	for _, batching := range []bool{false, true} {
		m := model()
		if batching {
			m.DynamicBatching = &edgewise.DynamicBatching{MaxQueueDelay: 1000}
		}
		l := &lender{lent: map[*byte][]byte{}}
		s := schedulerOf(l, m, Config{Instances: 2, MaxQueue: 100})
		var all sync.WaitGroup
		for c := range 8 {
			all.Go(func() {
				for n := range 20 {
					r, err := s.Infer(t.Context(), request(float32(c), float32(n)))
					if err != nil {
						t.Error(err)
						return
					}
					if string(r.Outputs[0].Data) != string(floats(float32(2*c), float32(2*n))) {
						t.Error("another request's answer")
					}
					r.Release()
				}
			})
		}
		all.Wait()
		if err := s.Close(); err != nil || l.strange > 0 {
			t.Errorf("batching %v: %d inputs stood elsewhere, error %v", batching, l.strange, err)
		}
	}
}

func TestARequestFailsWhenTheInstanceHasNoMemoryForIt(t *testing.T) {
	l := &lender{lent: map[*byte][]byte{}, refuse: true}
	s := schedulerOf(l, model(), Config{Instances: 1, MaxQueue: 10})
	if _, err := s.Infer(t.Context(), request(1, 2)); edgewise.KindOf(err) != edgewise.Exhausted {
		t.Errorf("got %v", err)
	}
	l.mu.Lock()
	l.refuse = false
	l.mu.Unlock()
	r, err := s.Infer(t.Context(), request(1, 2))
	if err != nil {
		t.Fatal(err)
	}
	r.Release()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestLanesKeepLittleBorrowedMemory(t *testing.T) {
	m := model()
	m.Input[0].Dims, m.Output[0].Dims = edgewise.Shape{-1}, edgewise.Shape{-1}
	for _, test := range []struct{ floats, kept int }{{1000, 1}, {maxKept / 4, 0}} { // a quarter more is borrowed than needed
		l := &lender{lent: map[*byte][]byte{}}
		s := schedulerOf(l, m, Config{Instances: 1, MaxQueue: 10})
		in := edgewise.Tensor{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{1, int64(test.floats)}, Data: make([]byte, 4*test.floats)}
		for range 3 {
			r, err := s.Infer(t.Context(), &edgewise.Request{Inputs: []edgewise.Tensor{in}})
			if err != nil {
				t.Fatal(err)
			}
			r.Release()
		}
		l.mu.Lock()
		if len(l.lent) != test.kept {
			t.Errorf("%d floats: %d buffers are kept", test.floats, len(l.lent))
		}
		l.mu.Unlock()
		if err := s.Close(); err != nil || l.strange > 0 {
			t.Errorf("%d inputs stood elsewhere, error %v", l.strange, err)
		}
	}
}

// patron is a lender that lends to requests, too, and notes where the inputs of its runs stood.
type patron struct {
	lender
	seen []*byte
}

func (p *patron) AllocBody(n int) ([]byte, func()) {
	data, free, _ := p.Alloc(n)
	return data, free
}

func (p *patron) OwnsBody(data []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lent[unsafe.SliceData(data)] != nil
}

func (p *patron) Run(ctx context.Context, in []edgewise.Tensor, want []string) (*edgewise.Result, error) {
	p.mu.Lock()
	p.seen = append(p.seen, unsafe.SliceData(in[0].Data))
	p.mu.Unlock()
	return p.lender.Run(ctx, in, want)
}

func TestALoneRequestMadeInMemoryOfTheInstanceIsNotGathered(t *testing.T) {
	p := &patron{lender: lender{lent: map[*byte][]byte{}}}
	s := schedulerOf(p, model(), Config{Instances: 1, MaxQueue: 10})
	for _, lend := range []bool{true, false, true} {
		r := request(1, 2)
		data, free := s.AllocBody(len(r.Inputs[0].Data))
		if lend {
			r.Inputs[0].Data = append(data[:0], r.Inputs[0].Data...)
		}
		got, err := s.Infer(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if string(got.Outputs[0].Data) != string(floats(2, 4)) {
			t.Error("another answer")
		}
		if here := p.seen[len(p.seen)-1] == unsafe.SliceData(data); here != lend {
			t.Errorf("lent %v: it ran where it was made: %v", lend, here)
		}
		got.Release()
		free()
	}
	if err := s.Close(); err != nil || p.strange > 0 {
		t.Errorf("%d inputs stood elsewhere, error %v", p.strange, err)
	}
	none := schedulerOf(&doubler{}, model(), Config{Instances: 1, MaxQueue: 10})
	if data, _ := none.AllocBody(100); data != nil {
		t.Error("an instance without memory to lend lends")
	}
	if err := none.Close(); err != nil {
		t.Error(err)
	}
}
