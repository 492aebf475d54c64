package serving

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// card is a GPU with room for so many bytes, and what is loaded on it.
type card struct {
	memory *gpuMemory
	mu     sync.Mutex
	loads  []string
	on     int // instances at this moment
	most   int
}

func newCard(bytes int64) *card {
	return &card{memory: newGPUMemory(oneGPU(bytes), slog.New(slog.DiscardHandler))}
}

// oneGPU is a machine whose GPU has a number of bytes for models.
type oneGPU int64

func (g oneGPU) Usable() ([]edgewise.DeviceInfo, error) {
	return []edgewise.DeviceInfo{{Device: edgewise.Device{Kind: edgewise.GPU}, Budget: int64(g)}}, nil
}

func (oneGPU) Slowed(edgewise.Device) string { return "" }

func (c *card) share(name string, bytes int64) *share {
	return &share{id: edgewise.ModelID{Name: name, Version: 1}, device: edgewise.Device{Kind: edgewise.GPU}, bytes: bytes}
}

func (c *card) resident(t *testing.T, name string, bytes int64) *resident {
	t.Helper()
	r, err := newResident(t.Context(), c.memory, c.share(name, bytes), func(context.Context) (isolated, error) {
		return c.load(name), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (c *card) load(name string) isolated {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loads = append(c.loads, name)
	c.on++
	c.most = max(c.most, c.on)
	return &loaded{card: c}
}

type loaded struct {
	counted
	card *card
}

func (l *loaded) Close() error {
	l.card.mu.Lock()
	defer l.card.mu.Unlock()
	l.card.on--
	return nil
}

func ask(t *testing.T, i edgewise.Instance) {
	t.Helper()
	r, err := i.Run(context.Background(), nil, nil, edgewise.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.Free()
}

func TestTheOneAskedForLongestAgoGivesWay(t *testing.T) {
	c := newCard(200)
	a, b := c.resident(t, "a", 100), c.resident(t, "b", 100)
	ask(t, b)
	ask(t, a)
	d := c.resident(t, "d", 100) // b was asked for longest ago
	ask(t, a)
	ask(t, d)
	if got := strings.Join(c.loads, ""); got != "abd" {
		t.Errorf("loaded %s", got)
	}
	if p, ok := b.Process(); !ok || !p.Evicted || !strings.Contains(p.Reason, "loaded by the next request") {
		t.Errorf("%+v", p)
	}
	ask(t, b) // a gives way
	if got := strings.Join(c.loads, ""); got != "abdb" || c.on != 2 || c.most != 2 {
		t.Errorf("loaded %s, %d on the device, at most %d", got, c.on, c.most)
	}
	for _, r := range []*resident{a, b, d} {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if c.on != 0 || len(c.memory.taken) != 0 {
		t.Errorf("%d instances and %d shares left", c.on, len(c.memory.taken))
	}
}

func TestWhatIsUsedOrStaysIsNotEvicted(t *testing.T) {
	c := newCard(200)
	fixed := c.share("fixed", 120)
	if err := c.memory.take(fixed); err != nil {
		t.Fatal(err)
	}
	a := c.resident(t, "a", 80)
	held, err := a.Run(context.Background(), nil, nil, edgewise.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = c.memory.take(c.share("b", 80))
	if edgewise.KindOf(err) != edgewise.Exhausted ||
		!strings.Contains(err.Error(), `are taken by model "fixed" version 1 (120), model "a" version 1 (80)`) &&
			!strings.Contains(err.Error(), "fixed") {
		t.Errorf("a result that is not freed was evicted: %v", err)
	}
	held.Free()
	if err := c.memory.take(c.share("b", 80)); err != nil {
		t.Error(err)
	}
	if err := c.memory.take(c.share("huge", 201)); edgewise.KindOf(err) != edgewise.Exhausted ||
		!strings.Contains(err.Error(), "gpu_memory_bytes") {
		t.Errorf("more than there is: %v", err)
	}
	if _, err := a.Run(context.Background(), nil, nil, edgewise.RunOptions{}); edgewise.KindOf(err) != edgewise.Exhausted {
		t.Errorf("a request that finds no room: %v", err)
	}
	c.memory.give(fixed)
	ask(t, a)
}

func TestMemoryOfAModelOnDemandKeepsItOnTheDevice(t *testing.T) {
	c := newCard(100)
	a := c.resident(t, "a", 100)
	a.AllowPadding()
	data, free, err := a.Alloc(8)
	if err != nil || len(data) != 8 || a.KeptBytes() != 0 {
		t.Fatal(len(data), a.KeptBytes(), err)
	}
	if err := c.memory.take(c.share("b", 100)); edgewise.KindOf(err) != edgewise.Exhausted {
		t.Errorf("evicted under its memory: %v", err)
	}
	free()
	body, freeBody := a.AllocBody(8)
	if body == nil || !a.OwnsBody(body) {
		t.Error("no memory for a body")
	}
	b := c.resident(t, "b", 100) // a body may be slow and keeps nothing
	freeBody()
	if body, _ := a.AllocBody(8); body != nil || a.OwnsBody([]byte{1}) {
		t.Error("memory of a model that is not on the device")
	}
	own, freeOwn, err := a.Alloc(8)
	if err != nil || len(own) != 8 {
		t.Error(len(own), err)
	}
	freeOwn()
	ask(t, a) // b gives way
	if now := a.now.(*loaded); !now.pads {
		t.Error("a model that is loaded again has forgotten that it may add rows")
	}
	for _, r := range []*resident{a, b} {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestALoadThatFailsGivesItsShareBack(t *testing.T) {
	c := newCard(100)
	_, err := newResident(t.Context(), c.memory, c.share("a", 100), func(context.Context) (isolated, error) {
		return nil, errors.New("no")
	})
	if err == nil || len(c.memory.taken) != 0 {
		t.Errorf("%v, %d shares", err, len(c.memory.taken))
	}
}

// TestManyModelsShareOneCard lets many goroutines ask for more models than fit, and looks that the budget holds all the time.
func TestManyModelsShareOneCard(t *testing.T) {
	c := newCard(300)
	var list []*resident
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		list = append(list, c.resident(t, name, 100))
	}
	var clients sync.WaitGroup
	for client := range 8 {
		clients.Go(func() {
			for n := range 50 {
				r, err := list[(client*7+n)%len(list)].Run(context.Background(), nil, nil, edgewise.RunOptions{})
				if err != nil && edgewise.KindOf(err) != edgewise.Exhausted {
					t.Error(err)
				}
				if err == nil {
					r.Free()
				}
			}
		})
	}
	clients.Wait()
	if c.most > 3 {
		t.Errorf("%d models of 100 bytes were on a device with 300", c.most)
	}
	for _, r := range list {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if c.on != 0 || len(c.memory.taken) != 0 {
		t.Errorf("%d instances and %d shares left", c.on, len(c.memory.taken))
	}
}

func TestWhatAModelTakes(t *testing.T) {
	m := &edgewise.Model{
		InstanceGroup: []edgewise.InstanceGroup{{Kind: edgewise.KindGPU, Count: 2}},
		Parameters:    map[string]edgewise.ModelParam{},
	}
	on := edgewise.Device{Kind: edgewise.GPU}
	if got := gpuNeed(m, &edgewise.Inspection{ParameterBytes: 100 << 20}, on); got != contextBytes+(100<<20)/100*300 {
		t.Errorf("two instances of 100 MiB: %d", got)
	}
	m.Parameters[gpuMemoryParameter] = edgewise.ModelParam{StringValue: "5000"}
	if got := gpuNeed(m, &edgewise.Inspection{}, on); got != 5000 {
		t.Errorf("stated: %d", got)
	}
}

// TestADeviceThatSharesTheMachinesMemory has a budget of the start, and by now less is left: what can give way does,
// and then the load is refused.
func TestADeviceThatSharesTheMachinesMemory(t *testing.T) {
	c := newCard(1000)
	a := c.resident(t, "a", 100)
	c.memory.left = func(edgewise.Device) (int64, bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return 150 - 100*int64(c.on), true
	}
	b := c.resident(t, "b", 100) // a has given way
	if got := strings.Join(c.loads, ""); got != "ab" || c.on != 1 {
		t.Errorf("loaded %s, %d on the device", got, c.on)
	}
	err := c.memory.take(c.share("large", 200))
	if edgewise.KindOf(err) != edgewise.Exhausted ||
		!strings.Contains(err.Error(), "which shares the machine's memory, and 150 are left of that") {
		t.Errorf("more than is left: %v", err)
	}
	for _, r := range []*resident{a, b} {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
