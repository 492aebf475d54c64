package sched

import (
	"context"
	"sync"
	"testing"
	"unsafe"

	"github.com/edgewise-ai/edgewise"
)

// allocating is a doubler that allocates memory for inputs and counts the inputs that are elsewhere.
type allocating struct {
	doubler
	mu      sync.Mutex
	inUse   map[*byte][]byte
	strange int
	refuse  bool
}

func (l *allocating) Alloc(n int) ([]byte, func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse {
		return nil, nil, edgewise.Errorf("allocating", edgewise.Exhausted, "no memory")
	}
	data := make([]byte, n)
	l.inUse[&data[0]] = data
	return data, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.inUse, &data[0])
	}, nil
}

func (l *allocating) Run(ctx context.Context, in []edgewise.Tensor, want []string,
	options edgewise.RunOptions,
) (*edgewise.Result, error) {
	l.mu.Lock()
	for i := range in {
		if l.inUse[unsafe.SliceData(in[i].Data)] == nil {
			l.strange++
		}
	}
	l.mu.Unlock()
	return l.doubler.Run(ctx, in, want, options)
}

// keptBytes is what KeptBytes returns.
const keptBytes = 1 << 20

func (l *allocating) KeptBytes() int { return keptBytes }

func (l *allocating) Close() error {
	if len(l.inUse) > 0 {
		panic("closed with memory in use")
	}
	return l.doubler.Close()
}

func TestInputsAreGatheredInMemoryOfTheInstance(t *testing.T) {
	for _, batching := range []bool{false, true} {
		m := model()
		if batching {
			m.DynamicBatching = &edgewise.DynamicBatching{MaxQueueDelay: 1000}
		}
		l := &allocating{inUse: map[*byte][]byte{}}
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
	l := &allocating{inUse: map[*byte][]byte{}, refuse: true}
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

func TestInstanceLoopsKeepLittleBorrowedMemory(t *testing.T) {
	m := model()
	m.Input[0].Dims, m.Output[0].Dims = edgewise.Shape{-1}, edgewise.Shape{-1}
	for _, test := range []struct{ floats, kept int }{{1000, 1}, {keptBytes / 4, 0}} { // a quarter more is borrowed than needed
		l := &allocating{inUse: map[*byte][]byte{}}
		s := schedulerOf(l, m, Config{Instances: 1, MaxQueue: 10})
		in := edgewise.Tensor{
			Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{1, int64(test.floats)},
			Data: make([]byte, 4*test.floats),
		}
		for range 3 {
			r, err := s.Infer(t.Context(), &edgewise.Request{Inputs: []edgewise.Tensor{in}})
			if err != nil {
				t.Fatal(err)
			}
			r.Release()
		}
		l.mu.Lock()
		if len(l.inUse) != test.kept {
			t.Errorf("%d floats: %d buffers are kept", test.floats, len(l.inUse))
		}
		l.mu.Unlock()
		if err := s.Close(); err != nil || l.strange > 0 {
			t.Errorf("%d inputs stood elsewhere, error %v", l.strange, err)
		}
	}
}

// bodyAllocating is an allocating whose memory requests can borrow, too, and notes where the inputs of its runs stood.
type bodyAllocating struct {
	allocating
	seen []*byte
}

func (p *bodyAllocating) AllocBody(n int) ([]byte, func()) {
	data, free, _ := p.Alloc(n)
	return data, free
}

func (p *bodyAllocating) OwnsBody(data []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inUse[unsafe.SliceData(data)] != nil
}

func (p *bodyAllocating) Run(ctx context.Context, in []edgewise.Tensor, want []string,
	options edgewise.RunOptions,
) (*edgewise.Result, error) {
	p.mu.Lock()
	p.seen = append(p.seen, unsafe.SliceData(in[0].Data))
	p.mu.Unlock()
	return p.allocating.Run(ctx, in, want, options)
}

func TestASingleRequestInABorrowedBufferIsNotGathered(t *testing.T) {
	p := &bodyAllocating{allocating: allocating{inUse: map[*byte][]byte{}}}
	s := schedulerOf(p, model(), Config{Instances: 1, MaxQueue: 10})
	for _, borrow := range []bool{true, false, true} {
		r := request(1, 2)
		data, free := s.AllocBody(len(r.Inputs[0].Data))
		if borrow {
			r.Inputs[0].Data = append(data[:0], r.Inputs[0].Data...)
		}
		got, err := s.Infer(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if string(got.Outputs[0].Data) != string(floats(2, 4)) {
			t.Error("another answer")
		}
		if here := p.seen[len(p.seen)-1] == unsafe.SliceData(data); here != borrow {
			t.Errorf("inUse %v: it ran where it was made: %v", borrow, here)
		}
		got.Release()
		free()
	}
	if err := s.Close(); err != nil || p.strange > 0 {
		t.Errorf("%d inputs stood elsewhere, error %v", p.strange, err)
	}
	none := schedulerOf(&doubler{}, model(), Config{Instances: 1, MaxQueue: 10})
	if data, _ := none.AllocBody(100); data != nil {
		t.Error("an instance without memory of its own allocates a body")
	}
	if err := none.Close(); err != nil {
		t.Error(err)
	}
}
