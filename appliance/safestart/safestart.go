// Package safestart counts the starts of the appliance that did not end well, and says when there were so many that the
// next one has to leave the models out (decision 0030).
package safestart

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/update"
	"github.com/edgewise-ai/edgewise/store"
)

// When a start is a safe one. A model that ends the program has to do so twice before it is left out. A loss of power
// is not a model's fault: it counts only when the same version was being loaded each time, and has to come more often.
const (
	// MaxCrashes is how many starts in a row, within one boot of the machine, may end badly before the next is safe.
	MaxCrashes = 2
	// maxCuts is how many starts may end while the same version is being loaded, across boots of the machine.
	maxCuts = 4

	steadyTime     = 30 * time.Second // that the appliance must be ready for before its start has gone well
	startsFile     = "starts.json"
	maxSuspects    = 64
	maxStartsBytes = 64 << 10
)

// starts is what the data folder remembers of starts that did not end well. The file does not exist after one that did.
type starts struct {
	Total   int       `json:"total"`
	InBoot  int       `json:"in_boot"` // those of them in this boot of the machine
	Boot    string    `json:"boot"`
	Since   time.Time `json:"since"`
	Loading []string  `json:"loading"` // versions that are being loaded, as name:version

	Suspects map[string]int `json:"suspects"` // how many of the starts ended while a version was being loaded
	Safe     bool           `json:"safe"`     // the last start was safe: so is the next, until a person leaves it
}

// next returns what a start begins with that follows the starts in s, and whether it is safe.
func (s starts) next(boot string, now time.Time) (n starts, safe bool) {
	n = s
	if s.Boot != boot {
		n.InBoot, n.Boot = 0, boot
	}
	if s.Total == 0 {
		n.Since = now
	}
	n.Suspects = map[string]int{} // only those of the last start stay
	safe = s.Safe || n.InBoot >= MaxCrashes
	for _, name := range s.Loading {
		n.Suspects[name] = s.Suspects[name] + 1
		safe = safe || n.Suspects[name] >= maxCuts
	}
	if safe {
		n.Safe = true
		return n, true
	}
	n.Total, n.InBoot, n.Loading = n.Total+1, n.InBoot+1, nil
	return n, false
}

// Counter counts the starts that do not end well. A user's model must neither make the appliance unreachable nor decide
// whether the system is good. All methods are safe for concurrent use.
type Counter struct {
	path     string
	logger   *slog.Logger
	previous starts // what the earlier starts have left

	mu      sync.Mutex // guards what follows
	current starts
	active  bool
	over    bool // this start has gone well, or has stopped in order: nothing is counted any more
}

// Open begins to count a start in the data folder dir. A file that cannot be read is logged and replaced. Where starts are not
// counted, no start is safe, and what was counted before is forgotten.
func Open(dir string, counted bool, logger *slog.Logger) *Counter {
	c := &Counter{path: filepath.Join(dir, startsFile), logger: logger}
	if !counted {
		c.over = true
		c.remove()
		return c
	}
	previous, err := readStarts(c.path)
	if err != nil {
		logger.Error("the record of earlier starts cannot be read and is replaced", "error", err)
	}
	c.previous = previous
	c.current, c.active = previous.next(update.BootID(), time.Now().UTC())
	if c.active {
		logger.Error("safe start: no models are loaded, since the starts before did not end well",
			"starts", c.current.Total, "loading", c.current.Loading)
	}
	c.write(true)
	return c
}

func readStarts(path string) (s starts, err error) {
	text, err := store.ReadBounded(path, maxStartsBytes)
	if os.IsNotExist(err) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return starts{}, err
	}
	return s, nil
}

// write stores the current state. Only a durable change outlives a loss of power; the others outlive a crash of the
// program. c.mu is held, or c is not shared yet.
func (c *Counter) write(durable bool) {
	text, err := json.Marshal(c.current)
	if err == nil && durable {
		err = update.WriteFile(c.path, text, 0o640)
	} else if err == nil {
		err = os.WriteFile(c.path, text, 0o640)
	}
	if err != nil {
		c.logger.Error("counting starts", "error", err)
	}
}

// Active tells whether this is a safe start, in which no model is loaded.
func (c *Counter) Active() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.active
}

// Loading notes that a version is being loaded; done is called when it is loaded, or has failed. At most 64 versions
// are noted at a time.
func (c *Counter) Loading(id edgewise.ModelID) (done func()) {
	name := id.Name + ":" + strconv.FormatInt(id.Version, 10)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || len(c.current.Loading) >= maxSuspects || c.active {
		return func() {}
	}
	c.current.Loading = append(slices.Clone(c.current.Loading), name)
	c.write(false)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if i := slices.Index(c.current.Loading, name); i >= 0 && !c.over {
			c.current.Loading = slices.Delete(slices.Clone(c.current.Loading), i, i+1)
			c.write(false)
		}
	}
}

// Succeeded notes that this start has gone well, and forgets the earlier ones. A safe start does not go well: the next
// one is safe, too.
func (c *Counter) Succeeded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active || c.over {
		return
	}
	c.over, c.current = true, starts{}
	c.remove()
}

// remove deletes the record. c.mu is held.
func (c *Counter) remove() {
	if err := os.Remove(c.path); err != nil && !os.IsNotExist(err) {
		c.logger.Error("counting starts", "error", err)
	}
}

// Undo takes back what this start has noted. It is for a start that ends with an error before any model is loaded, such
// as a port in use: that error is not a model's, and must not lead to a start without models.
func (c *Counter) Undo() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.over, c.current = true, c.previous
	if c.previous.Total > 0 {
		c.write(true)
		return
	}
	c.remove()
}

// AwaitSteady notes that this start has gone well when the appliance has been ready for 30 seconds. It returns then, or
// when ctx ends.
func (c *Counter) AwaitSteady(ctx context.Context) {
	timer := time.NewTimer(steadyTime)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
		c.Succeeded()
	}
}

// Leave ends a safe start: models are loaded again, and counted as in any start. It returns false when there is no safe
// start.
func (c *Counter) Leave() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.active {
		return false
	}
	c.active = false
	c.current = starts{
		Total: c.current.Total + 1, InBoot: MaxCrashes, Boot: update.BootID(), // one crash more leads back to a safe start
		Since: c.current.Since, Suspects: c.current.Suspects,
	}
	c.write(true)
	return true
}

// Describe returns what clients see of a safe start, nil when there is none.
func (c *Counter) Describe() *admin.SafeStart {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.active {
		return nil
	}
	text := fmt.Sprintf("The box has started without its models: %d starts in a row did not end well.", c.current.Total)
	if len(c.current.Loading) > 0 {
		text += fmt.Sprintf(" The last one ended while %s was being loaded.", firstNames(c.current.Loading))
	}
	return &admin.SafeStart{
		Since: c.current.Since, Crashes: c.current.Total, Models: append([]string{}, c.current.Loading...), Text: text,
	}
}

// firstNames joins the first three names and counts the others.
func firstNames(names []string) string {
	const most = 3
	text := ""
	for i, name := range names {
		switch {
		case i == most:
			return fmt.Sprintf("%s and %d more", text, len(names)-most)
		case i > 0:
			text += ", "
		}
		text += name
	}
	return text
}
