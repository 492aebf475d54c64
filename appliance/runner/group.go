package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/child"
	"github.com/edgewise-ai/edgewise/host"
)

// group is the versions that share a process. It starts the process again after a crash. A version that shares with no
// other one is a group of one, without a name.
type group struct {
	backend *Backend
	name    string
	closing chan struct{} // closed when the last member has left
	ended   chan struct{} // the supervisor has returned
	fallen  chan struct{} // closed when the process is not started again
	swapped chan struct{} // has a token when another process, or none, has taken the place of the process

	changing sync.Mutex     // held while a process is started
	retiring sync.WaitGroup // processes that end after their last runs

	mu         sync.Mutex // guards what follows
	members    []*Instance
	process    *process // nil while there is none
	reason     string   // why there is none
	resting    bool     // there is none because it gave its memory back; the next run starts it
	waking     *waking  // somebody starts it
	crashes    child.Crashes
	generation uint64
	over       bool // no member may join
}

func newGroup(b *Backend, name string) *group {
	return &group{
		backend: b, name: name, closing: make(chan struct{}), ended: make(chan struct{}), fallen: make(chan struct{}),
		swapped: make(chan struct{}, 1),
	}
}

// noun is what the group's process is called in what is said of a member.
func (g *group) noun() string {
	if g.name == "" {
		return "its process"
	}
	return fmt.Sprintf("the process of its group %q", g.name)
}

// errOver says that a group came to its end before a version had joined it.
var errOver = errors.New("the group has ended")

// join starts a process with the members and one more version. Errors: those of start; errOver.
func (g *group) join(ctx context.Context, i *Instance) error {
	g.changing.Lock()
	defer g.changing.Unlock()
	g.mu.Lock()
	members, over := append(slices.Clone(g.members), i), g.over
	g.mu.Unlock()
	if over {
		return errOver
	}
	p, err := g.start(ctx, members)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		g.retiring.Go(p.end)
		return errOver
	}
	g.members = append(g.members, i)
	if g.put(p); len(g.members) == 1 {
		go g.supervise(p)
	}
	return nil
}

// put makes p the process that runs go to. The caller holds mu.
func (g *group) put(p *process) {
	if old := g.process; old != nil {
		g.retiring.Go(old.retire)
	}
	for _, i := range p.members {
		if !slices.Contains(g.members, i) { // it has left meanwhile
			p.dismiss(i)
		}
	}
	if w := g.waking; w != nil {
		p.held.Add(1)
		w.started = p
	}
	g.replace(p, "")
}

// replace makes p the process, which may be nil for a reason. The caller holds mu.
func (g *group) replace(p *process, reason string) {
	g.process, g.reason, g.resting = p, reason, false
	select {
	case g.swapped <- struct{}{}:
	default:
	}
}

// leave ends the membership of i, whose last run has ended. The last member takes the process with it.
func (g *group) leave(i *Instance) {
	g.mu.Lock()
	g.members = slices.DeleteFunc(g.members, func(m *Instance) bool { return m == i })
	last := len(g.members) == 0
	if last {
		g.over = true
		close(g.closing)
	} else if g.process != nil {
		g.process.dismiss(i)
	}
	g.mu.Unlock()
	if last {
		<-g.ended
		g.backend.forget(g)
	}
}

// start makes a process and waits until it has loaded its members. Where it fails with what was compiled before, another
// one is made without that.
func (g *group) start(ctx context.Context, members []*Instance) (*process, error) {
	ctx, cancel := context.WithTimeout(ctx, g.backend.config.LoadTimeout*time.Duration(len(members)))
	defer cancel()
	on := g.backend.place(members)
	p, err := g.attempt(ctx, members, on)
	if on.Kept == nil {
		return p, err
	}
	if err != nil && maybeOfKept(err) && on.Kept.Clear() {
		g.backend.config.Logger.Warn("a model is loaded again without what was compiled for it before",
			append(g.label(members), "error", err)...)
		p, err = g.attempt(ctx, members, on)
	}
	if err == nil {
		on.Kept.Seal()
	}
	return p, err
}

// maybeOfKept tells whether what was compiled before may be why a load has failed. It is not where the device is lost,
// something is missing or full, or the time is over: to compile it again may take minutes.
func maybeOfKept(err error) bool {
	switch edgewise.KindOf(err) {
	case edgewise.Unavailable, edgewise.Exhausted, edgewise.Unsupported, edgewise.Deadline, edgewise.Canceled:
		return false
	}
	return true
}

// attempt makes a process and waits until it has loaded its members.
func (g *group) attempt(ctx context.Context, members []*Instance, on Place) (*process, error) {
	g.mu.Lock()
	g.generation++
	generation := g.generation
	g.mu.Unlock()
	p, err := g.backend.spawn(g, members, generation, on)
	if err != nil {
		err = host.NameLimit(err)
		return nil, edgewise.Errorf("runner.start", edgewise.KindOf(err), "model %v: %s cannot be started: %w",
			members[len(members)-1].id, g.noun(), err)
	}
	if err = p.loaded(ctx); err == nil {
		return p, nil
	}
	p.end()
	return nil, err
}

// supervise starts another process whenever the present one dies, until it has died too often.
func (g *group) supervise(p *process) {
	defer close(g.ended)
	defer g.retiring.Wait()
	for {
		var dead <-chan struct{}
		if p != nil {
			dead = p.Dead()
		}
		select {
		case <-g.closing:
			if p = g.drop(); p != nil {
				p.end()
			}
			return
		case <-g.swapped:
			p = g.current()
			continue
		case <-dead:
		}
		if now := g.current(); now != p { // it was replaced, and died after that
			p = now
			continue
		}
		p.end()
		g.died(p, p.Cause())
		if !g.restart() {
			break
		}
		p = g.current()
	}
	select {
	case <-g.closing:
	default:
		g.fall()
	}
}

func (g *group) current() *process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.process
}

// drop takes the process out of use.
func (g *group) drop() *process {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.process
	g.process = nil
	return p
}

// fall ends the group: its members stay down until they are loaded again.
func (g *group) fall() {
	g.mu.Lock()
	g.over = true
	g.mu.Unlock()
	if p := g.drop(); p != nil {
		p.end()
	}
	g.backend.forget(g)
	close(g.fallen)
}

// died records a crash of p, or of one that had not loaded yet, nil, and tells who wants to know of devices.
func (g *group) died(p *process, cause string) {
	on, counts := g.count(p, cause)
	if tell := g.backend.config.Died; tell != nil && counts && on.Kind != edgewise.CPU {
		tell(on, cause)
	}
}

// count records a crash. It returns the device of the group; counts is false when the last member is leaving.
func (g *group) count(p *process, cause string) (on edgewise.Device, counts bool) {
	config := &g.backend.config
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.process == p {
		g.process = nil
	}
	if len(g.members) == 0 {
		return on, false
	}
	last := g.crashes.Add(time.Now(), config.Restarts)
	g.reason = fmt.Sprintf("%s died (%s) and is being started again", g.noun(), cause)
	if last {
		g.reason = fmt.Sprintf("%s died %d times within %v, the last time with: %s; it is not started again before the "+
			"model is loaded again", g.noun(), len(g.crashes), config.CrashWindow, cause)
	}
	for _, i := range g.members {
		i.stats.crashes.Add(1)
	}
	config.Logger.Error("the process of a model died", append(g.label(g.members), "cause", cause, "crashes",
		len(g.crashes))...)
	return g.members[0].task.Device, true
}

// label names a group in the log: a version by itself, or the group and its members.
func (g *group) label(members []*Instance) []any {
	if g.name == "" {
		return []any{"model", members[0].id.String()}
	}
	names := make([]string, len(members))
	for n, i := range members {
		names[n] = i.id.String()
	}
	return []any{"group", g.name, "models", names}
}

// open returns a context that ends when the last member leaves.
func (g *group) open() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-g.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// restart waits for the back-off and starts a process, until one has loaded or the group rests. It returns false when
// the last member has left or the process has crashed too often.
func (g *group) restart() bool {
	ctx, cancel := g.open()
	defer cancel()
	for {
		g.mu.Lock()
		crashes := len(g.crashes)
		g.mu.Unlock()
		if crashes >= g.backend.config.MaxCrashes {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(g.backend.config.BackOff(crashes)):
		}
		p, err := g.again(ctx, false)
		switch {
		case ctx.Err() != nil:
			if p != nil {
				g.drop()
				p.end()
			}
			return false
		case err == nil:
			if p != nil {
				g.backend.config.Logger.Info("the process of a model was started again", append(g.label(p.members), "pid", p.PID)...)
			}
			return true
		}
		g.died(nil, err.Error())
	}
}

// missed tells whether somebody waits for a process that is not there: it has died, or it rests.
func (g *group) missed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.process == nil && (g.resting || len(g.crashes) > 0)
}

// again starts a process with the members, unless one has joined meanwhile and brought another, or the group rests and
// is not to be woken.
func (g *group) again(ctx context.Context, wake bool) (*process, error) {
	g.changing.Lock()
	defer g.changing.Unlock()
	g.mu.Lock()
	members, p, rests := slices.Clone(g.members), g.process, g.resting && !wake
	g.mu.Unlock()
	if p != nil || rests || len(members) == 0 {
		return p, ctx.Err()
	}
	p, err := g.start(ctx, members)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		g.retiring.Go(p.end)
		return nil, errOver
	}
	g.put(p)
	return p, nil
}
