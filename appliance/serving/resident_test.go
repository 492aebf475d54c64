package serving

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
)

// card is a GPU with room for so many bytes, and what is loaded on it.
type card struct {
	memory *gpuMemory
	mu     sync.Mutex
	loads  []string
	clock  int // runs and loads so far
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

func (oneGPU) Identity() []string { return nil }

func (c *card) share(name string, bytes int64) *share {
	return &share{id: edgewise.ModelID{Name: name, Version: 1}, device: edgewise.Device{Kind: edgewise.GPU}, bytes: bytes}
}

// resident loads an instance that gives its share up for others.
func (c *card) resident(t *testing.T, name string, bytes int64) *onGPU {
	t.Helper()
	g := &onGPU{memory: c.memory, share: c.share(name, bytes)}
	if err := c.memory.take(g.share); err != nil {
		t.Fatal(err)
	}
	g.isolated = c.load(name)
	g.OnDemand(edgewise.Claims{Take: func(context.Context) error { return nil }, Taken: func(int64, int64) {}, Give: func() {}})
	c.memory.allow(g.share, g)
	return g
}

func (c *card) load(name string) *sleeper {
	s := &sleeper{card: c, name: name}
	c.come(s)
	return s
}

// come loads the instance of a sleeper.
func (c *card) come(s *sleeper) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loads = append(c.loads, s.name)
	c.on++
	c.most = max(c.most, c.on)
	c.clock++
	s.awake, s.used = true, c.clock
}

// sleeper is an instance that rests and wakes, as the runner's do.
type sleeper struct {
	counted
	card   *card
	name   string
	claims edgewise.Claims

	mu    sync.Mutex // held while it runs, rests or is woken
	awake bool
	used  int
	runs  int64
}

func (s *sleeper) OnDemand(c edgewise.Claims) { s.claims = c }

func (s *sleeper) Takes() (now, most int64) { return 0, 0 }

func (s *sleeper) Used() (time.Time, int64, bool) {
	s.card.mu.Lock()
	defer s.card.mu.Unlock()
	return time.Unix(int64(s.used), 0), s.runs, false
}

func (s *sleeper) Rest() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.awake {
		return false
	}
	s.leave()
	s.claims.Give()
	return true
}

func (s *sleeper) leave() {
	s.card.mu.Lock()
	defer s.card.mu.Unlock()
	s.awake = false
	s.card.on--
}

func (s *sleeper) Run(ctx context.Context, _ []edgewise.Tensor, _ []string, _ edgewise.RunOptions) (*edgewise.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.awake {
		if err := s.claims.Take(ctx); err != nil {
			return nil, err
		}
		s.card.come(s)
	}
	s.card.mu.Lock()
	defer s.card.mu.Unlock()
	s.card.clock++
	s.used = s.card.clock
	s.runs++
	return &edgewise.Result{Free: func() {}}, nil
}

func (s *sleeper) Process() (edgewise.Process, bool) {
	return edgewise.Process{Resting: !s.awake}, true
}

func (s *sleeper) Close() error {
	if s.awake {
		s.leave()
	}
	return nil
}

// close ends an instance as its version does.
func (c *card) close(t *testing.T, g *onGPU) {
	t.Helper()
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	c.memory.give(g.share)
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
	ask(t, b) // d gives way: it was asked for less often
	if got := strings.Join(c.loads, ""); got != "abdb" || c.on != 2 || c.most != 2 {
		t.Errorf("loaded %s, %d on the device, at most %d", got, c.on, c.most)
	}
	for _, r := range []*onGPU{a, b, d} {
		c.close(t, r)
	}
	if c.on != 0 || len(c.memory.taken) != 0 {
		t.Errorf("%d instances and %d shares left", c.on, len(c.memory.taken))
	}
}

func TestTheOneWhoseBytesAreAskedForLeastGivesWayOnAGPU(t *testing.T) {
	c := newCard(200)
	often, seldom := c.resident(t, "a", 100), c.resident(t, "b", 100)
	for range 5 {
		ask(t, often)
	}
	ask(t, seldom)               // last
	d := c.resident(t, "d", 100) // takes its place
	ask(t, often)
	if got := strings.Join(c.loads, ""); got != "abd" {
		t.Errorf("loaded %s", got)
	}
	for _, r := range []*onGPU{often, seldom, d} {
		c.close(t, r)
	}
}

func TestWhatIsPinnedDoesNotGiveWay(t *testing.T) {
	c := newCard(200)
	fixed := c.share("fixed", 120)
	if err := c.memory.take(fixed); err != nil {
		t.Fatal(err)
	}
	a := c.resident(t, "a", 80)
	if err := c.memory.take(c.share("b", 80)); err != nil {
		t.Error(err)
	}
	if err := c.memory.take(c.share("huge", 201)); edgewise.KindOf(err) != edgewise.Exhausted ||
		!strings.Contains(err.Error(), "gpu_memory_bytes") {
		t.Errorf("more than there is: %v", err)
	}
	_, err := a.Run(context.Background(), nil, nil, edgewise.RunOptions{})
	if want := `are taken by "fixed" version 1 (120), "b" version 1 (80)`; edgewise.KindOf(err) != edgewise.Exhausted ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("a request that finds no room: %v, want %s", err, want)
	}
	c.memory.give(fixed)
	ask(t, a)
}

// refusing is a backend that loads nothing.
type refusing struct{ edgewise.Backend }

func (refusing) Load(context.Context, *edgewise.Version, string, edgewise.Device) (edgewise.Instance, error) {
	return nil, errors.New("no")
}

func TestALoadThatFailsGivesItsShareBack(t *testing.T) {
	c := newCard(1 << 40)
	l := &load{
		Loader: &Loader{memory: c.memory}, version: &edgewise.Version{Model: &edgewise.Model{}}, backend: refusing{},
		inspection: func() (*edgewise.Inspection, error) { return &edgewise.Inspection{}, nil },
		place:      placement{devices: []edgewise.Device{{Kind: edgewise.GPU}}},
	}
	if _, err := l.on(t.Context()); err == nil || len(c.memory.taken) != 0 {
		t.Errorf("%v, %d shares", err, len(c.memory.taken))
	}
}

// TestManyModelsShareOneCard lets many goroutines ask for more models than fit, and looks that the budget holds all the time.
func TestManyModelsShareOneCard(t *testing.T) {
	c := newCard(300)
	var list []*onGPU
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
		c.close(t, r)
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
	for _, r := range []*onGPU{a, b} {
		c.close(t, r)
	}
}

// kept are texts about versions in memory.
type kept map[edgewise.ModelID]string

func (k kept) Get(id edgewise.ModelID) string { return k[id] }

func (k kept) Set(id edgewise.ModelID, text string) error {
	k[id] = text
	return nil
}

func TestAVersionIsLoadedWithWhatItTookBefore(t *testing.T) {
	id := edgewise.ModelID{Name: "m", Version: 3}
	v := &edgewise.Version{ID: id, Model: &edgewise.Model{Name: "m"}}
	l := &Loader{config: Config{Footprints: kept{id: "4096"}}}
	if f, err := l.Footprint(t.Context(), v, t.TempDir()); err != nil || f.Bytes != 4096 || f.Stated {
		t.Errorf("%+v, %v", f, err)
	}
	v.Model.Parameters = map[string]edgewise.ModelParam{modelconfig.MemoryParameter: {StringValue: "77"}}
	if f, err := l.Footprint(t.Context(), v, t.TempDir()); err != nil || f.Bytes != 77 || !f.Stated {
		t.Errorf("what its author states: %+v, %v", f, err)
	}
}
