package image

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
)

// recording is what was written to the disk of a machine since it was flashed, and what the box had promised when.
type recording struct {
	path    string
	base    disk // as it was flashed
	log     *os.File
	entries []logEntry
	from    int              // the first entry after which the power may be cut
	marks   []mark           // in the order of time
	models  map[string]int64 // length of the log when the box acknowledged a model, by name
}

// mark is a moment that the report names: the end of a step.
type mark struct {
	Name string
	Size int64 // of the log
}

// begin lets the machine's writes be logged from its first start on.
func (t *trial) begin() error {
	t.machine.log = t.machine.file("log")
	t.record = &recording{path: t.machine.log, base: disk(t.machine.file("base")), models: map[string]int64{}}
	if err := disk(t.machine.disk).copy(string(t.record.base)); err != nil {
		return err
	}
	return os.WriteFile(t.record.path, nil, 0o644)
}

// written is what a recording is kept as, beside its log.
type written struct {
	Marks  []mark
	Models map[string]int64
}

// mark notes that a step is done. What is known is written down beside the log: a test that is cut off can go on.
func (t *trial) mark(name string) error {
	if t.record == nil {
		return nil
	}
	r := t.record
	r.marks = append(r.marks, mark{name, r.size()})
	text, err := json.MarshalIndent(written{r.marks, r.models}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(t.machine.file("recording.json"), text, 0o644)
}

// resume goes on where a test has left the recorded life: with its disk, which is made again of what was recorded. The
// machine is not running.
func (t *trial) resume() error {
	if err := t.make(firstRecorded, conditions{}); err != nil {
		return err
	}
	text, err := os.ReadFile(t.machine.file("recording.json"))
	if err != nil {
		return err
	}
	var w written
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	t.record = &recording{path: t.machine.file("log"), base: disk(t.machine.file("base")), marks: w.Marks, models: w.Models}
	return t.record.replay(t.machine.disk)
}

// replay makes the disk as it was at the end of the recording.
func (r *recording) replay(to string) error {
	if err := r.base.copy(to); err != nil {
		return err
	}
	if err := r.open(); err != nil {
		return err
	}
	defer func() { _ = r.log.Close() }()
	f, err := os.OpenFile(to, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return play(file{f}, r.log, r.entries)
}

// size is how long the log is.
func (r *recording) size() int64 {
	info, err := os.Stat(r.path)
	if err != nil {
		return 0
	}
	return info.Size()
}

const uploads = 20

// upload uploads different models one after the other, and makes each live.
func (t *trial) upload() error {
	for n := range uploads {
		name := fmt.Sprintf("cut%03d", n)
		if err := t.box.want(http.MethodPost, "/api/v1/models/"+name+"/versions", "application/octet-stream",
			network(uint64(n)), nil); err != nil {
			return err
		}
		if t.record != nil {
			t.record.models[name] = t.record.size()
		}
	}
	return nil
}

// cuts: whenever the power is cut once the box has been claimed, while models are uploaded or an update is refused or
// installed, GRUB finds a whole system and the data hold all that was acknowledged.
func (t *trial) cuts() error {
	if t.record == nil {
		return errors.New("nothing was recorded: this step goes on with the step boot")
	}
	r, name, from := t.record, t.machine.name, t.machine.disk
	t.machine.cut()
	if err := r.open(); err != nil {
		return err
	}
	if err := t.cutAndLook(r); err != nil {
		return err
	}
	if t.machine.disk == from { // the life goes on with its own disk, unlogged
		t.machine.log = ""
		return nil
	}
	if err := t.make(name, conditions{}); err != nil {
		return err
	}
	t.machine.disk = from
	return nil
}

// open reads the list of what was written. The log stays open.
func (r *recording) open() (err error) {
	if r.log, err = os.Open(r.path); err != nil {
		return err
	}
	if r.entries, err = readLog(r.log, r.size()); err != nil {
		return err
	}
	r.from = 0
	good := slices.IndexFunc(r.marks, func(m mark) bool { return m.Name == "good" })
	if good < 0 {
		return errors.New("the recording does not hold the step good")
	}
	for r.from < len(r.entries) && r.entries[r.from].Logged <= r.marks[good].Size {
		r.from++
	}
	if r.from == len(r.entries) {
		return errors.New("the box has written nothing")
	}
	return nil
}

// moment names when a cut after n entries is.
func (r *recording) moment(n int) string {
	for _, m := range r.marks {
		if r.entries[n-1].Logged <= m.Size {
			return "in " + m.Name
		}
	}
	return "at the end"
}

// choose chooses after how many entries the power is cut, in order: at random, as often in each step, and after every
// write to the boot partition.
func (r *recording) choose(random *rand.Rand, count int, boot int64) []int {
	var at []int
	steps := map[string][]int{}
	for n := r.from; n < len(r.entries); n++ {
		steps[r.moment(n+1)] = append(steps[r.moment(n+1)], n+1)
		if e := r.entries[n]; e.Size > 0 && e.At < boot {
			at = append(at, n+1)
		}
	}
	for _, moments := range steps {
		for range count / len(steps) {
			at = append(at, moments[random.IntN(len(moments))])
		}
	}
	slices.Sort(at)
	return slices.Compact(at)
}

// chooseBoots chooses which of the cuts are booted: as many in each of the steps, spread over it, at random in their
// part.
func (r *recording) chooseBoots(random *rand.Rand, cuts []int, count int, steps []string) map[int]bool {
	chosen := map[int]bool{}
	for _, name := range steps {
		in := slices.DeleteFunc(slices.Clone(cuts), func(n int) bool { return r.moment(n) != "in "+name })
		want := min(count/len(steps), len(in))
		for i := range want {
			first, end := i*len(in)/want, (i+1)*len(in)/want
			chosen[in[first+random.IntN(end-first)]] = true
		}
	}
	return chosen
}

// cutAndLook cuts the power of what was recorded at many moments, looks into each disk, and boots some of them.
func (t *trial) cutAndLook(r *recording) error {
	defer func() { _ = r.log.Close() }()
	for _, m := range r.marks {
		t.say("           %s: %d MB of writes", m.Name, m.Size/1000000)
	}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	l, err := t.looker(r)
	if err != nil {
		return err
	}
	defer l.close()
	cuts := r.choose(random, t.count, l.bootEnds)
	t.say("           seed %d, %d writes, %d cuts", seed, len(r.entries)-r.from, len(cuts))
	toBoot := r.chooseBoots(random, cuts, t.boots, strings.Split(t.bootIn, ","))
	slots := map[string]int{}
	for i, n := range cuts {
		slot, err := l.look(n, seed)
		if err != nil {
			return fmt.Errorf("a cut after write %d of %d, %s: %w", n, len(r.entries), r.moment(n), err)
		}
		slots[slot]++
		if toBoot[n] {
			if err := t.bootCut(l, n, seed); err != nil {
				return fmt.Errorf("a boot after a cut after write %d of %d, %s: %w", n, len(r.entries), r.moment(n), err)
			}
			t.say("           booted: cut %d of %d, write %d, %s: slot %s, all data", i+1, len(cuts), n, r.moment(n), slot)
		}
	}
	t.say("           %d cuts looked into: GRUB finds slot A %d times, slot B %d times; data whole each time", len(cuts),
		slots["A"], slots["B"])
	return nil
}

// bootCut starts a machine with the disk that a cut has left: the page answers, the owner gets in, and every model that
// was acknowledged is there as it was sent.
func (t *trial) bootCut(l *looker, n int, seed uint64) error {
	if err := t.make(fmt.Sprintf("cut-%d", n), conditions{}); err != nil {
		return err
	}
	defer func() {
		t.machine.cut()
		_ = os.Remove(t.machine.disk)
	}()
	if err := l.disk(t.machine.disk, n, seed); err != nil {
		return err
	}
	if err := t.up(); err != nil {
		return err
	}
	if err := t.box.holds("mine", ownModel); err != nil {
		return err
	}
	for model, size := range l.r.models {
		if size > l.r.entries[n-1].Logged {
			continue
		}
		status, got, err := t.box.do(http.MethodGet, "/api/v1/models/"+model+"/versions/1/file?path=model.onnx", "", nil)
		if err != nil || status != http.StatusOK || !bytes.Equal(got, network(seedOf(model))) {
			return fmt.Errorf("model %s, which was acknowledged: %d, %d bytes, %w", model, status, len(got), err)
		}
	}
	return nil
}

func seedOf(model string) (n uint64) {
	_, _ = fmt.Sscanf(model, "cut%d", &n)
	return n
}
