package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise/test/image/writelog"
)

// recording is what happened to the disk of a machine, and what the box had promised when.
type recording struct {
	log     *os.File
	entries []writelog.Entry
	from    int            // the first entry after which the power may be cut
	marks   []mark         // in the order of time
	models  map[string]int // length of the log when the box acknowledged a model, by name
}

// mark is a moment that the report names.
type mark struct {
	name string
	size int64 // of the log
}

// cutUpdate: whenever the power is cut while an update is installed, started and checked, the box starts with all data.
func (t *trial) cutUpdate() error {
	r := &recording{models: map[string]int{}}
	err := t.record(r, func() error {
		if err := t.install(filepath.Join(t.image, "edgewise-"+t.newer+".raucb")); err != nil {
			return err
		}
		r.mark(t, "installed")
		if err := t.machine.monitor("system_reset"); err != nil {
			return err
		}
		if _, err := t.machine.says("Edgewise "+t.newer+", slot B", t.patience); err != nil {
			return err
		}
		if _, err := t.box.answers(t.patience); err != nil {
			return err
		}
		r.mark(t, "started")
		err := t.marked("B")
		r.mark(t, "marked good")
		return err
	})
	if err != nil {
		return err
	}
	return t.cutAndLook(r)
}

const uploads = 20

// cutUpload: whenever the power is cut while models are uploaded, the box starts, and what it had acknowledged is there.
func (t *trial) cutUpload() error {
	r := &recording{models: map[string]int{}}
	err := t.record(r, func() error {
		for n := range uploads {
			name := fmt.Sprintf("cut%03d", n)
			var stored struct{ Version int64 }
			if err := t.box.want(http.MethodPost, "/api/v1/models/"+name+"/versions", "application/octet-stream", network(uint64(n)), &stored); err != nil {
				return err
			}
			r.models[name] = int(t.logged())
			if err := t.box.want(http.MethodPut, "/api/v1/models/"+name+"/labels/live", "application/json", []byte(`{"version":1}`), nil); err != nil {
				return err
			}
		}
		r.mark(t, fmt.Sprintf("%d uploads acknowledged", uploads))
		return nil
	})
	if err != nil {
		return err
	}
	return t.cutAndLook(r)
}

// record starts a machine whose writes are logged, does something, and cuts the power.
func (t *trial) record(r *recording, do func() error) (err error) {
	t.machine.log = t.machine.file("log")
	if err := os.WriteFile(t.machine.log, nil, 0o644); err != nil {
		return err
	}
	if err := t.up(); err != nil {
		return err
	}
	if err := t.voice(); err != nil {
		return err
	}
	if err := t.marked("A"); err != nil {
		return err
	}
	r.mark(t, "begun")
	if err := do(); err != nil {
		return err
	}
	t.machine.cut()
	if err := t.keepRecording(r); err != nil {
		return err
	}
	return r.open(t.machine.log)
}

// keepRecording writes down what is known beside the log: cuts can be looked into again without a new recording.
func (t *trial) keepRecording(r *recording) error {
	marks := map[string]int64{}
	for _, m := range r.marks {
		marks[m.name] = m.size
	}
	text, err := json.MarshalIndent(map[string]any{"marks": marks, "models": r.models}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(t.machine.file("recording.json"), text, 0o644)
}

// logged is how long the log of the machine's writes is.
func (t *trial) logged() int64 {
	info, err := os.Stat(t.machine.log)
	if err != nil {
		return 0
	}
	return info.Size()
}

func (r *recording) mark(t *trial, name string) { r.marks = append(r.marks, mark{name, t.logged()}) }

func (r *recording) open(path string) (err error) {
	if r.log, err = os.Open(path); err != nil {
		return err
	}
	info, err := r.log.Stat()
	if err != nil {
		return err
	}
	if r.entries, err = writelog.Read(r.log, info.Size()); err != nil {
		return err
	}
	for r.from < len(r.entries) && r.entries[r.from].Logged <= r.marks[0].size {
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
		if r.entries[n-1].Logged <= m.size {
			return "before " + m.name
		}
	}
	return "at the end"
}

// cuts chooses after how many entries the power is cut, in order: at random, and after every write to the boot partition.
func (r *recording) cuts(random *rand.Rand, count int, boot int64) []int {
	var at []int
	for n := r.from; n < len(r.entries); n++ {
		if e := r.entries[n]; e.Size > 0 && e.At < boot {
			at = append(at, n+1)
		}
	}
	for range count {
		at = append(at, r.from+1+random.IntN(len(r.entries)-r.from))
	}
	slices.Sort(at)
	return slices.Compact(at)
}

// cutAndLook cuts the power of what was recorded at many moments, looks into each disk, and boots some of them.
func (t *trial) cutAndLook(r *recording) error {
	defer func() { _ = r.log.Close() }()
	for _, m := range r.marks {
		t.say("           %s: %d MB of writes", m.name, m.size/1000000)
	}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	l, err := t.looker(r)
	if err != nil {
		return err
	}
	defer l.close()
	cuts := r.cuts(random, t.cuts, l.bootEnds)
	t.say("           seed %d, %d writes, %d cuts", seed, len(r.entries)-r.from, len(cuts))
	toBoot := map[int]bool{}
	for i := range min(t.boots, len(cuts)) { // spread over the whole time, each at random in its part
		part := len(cuts) / min(t.boots, len(cuts))
		toBoot[cuts[i*part+random.IntN(part)]] = true
	}
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
	t.say("           %d cuts looked into: GRUB finds slot A %d times, slot B %d times; data whole each time", len(cuts), slots["A"], slots["B"])
	return nil
}

// bootCut starts a machine with the disk that a cut has left.
func (t *trial) bootCut(l *looker, n int, seed uint64) error {
	name := t.machine.name
	t.end()
	if err := t.make(name, conditions{}); err != nil {
		return err
	}
	t.machine.boots = 100 + n
	if err := l.disk(t.machine.disk, n, seed); err != nil {
		return err
	}
	if err := execute("cp", firmwares+"OVMF_VARS_4M.fd", t.machine.file("vars")); err != nil {
		return err
	}
	if err := t.up(); err != nil {
		return err
	}
	if err := t.box.holds("mine", ownModel); err != nil {
		return err
	}
	for model, size := range l.r.models {
		if int64(size) > l.r.entries[n-1].Logged {
			continue
		}
		status, got, err := t.box.do(http.MethodGet, "/api/v1/models/"+model+"/versions/1/file?path=model.onnx", "", nil)
		if err != nil || status != http.StatusOK || !bytes.Equal(got, network(seedOf(model))) {
			return fmt.Errorf("model %s, which was acknowledged: %d, %d bytes, %w", model, status, len(got), err)
		}
	}
	defer t.machine.cut()
	return t.voice()
}

func seedOf(model string) (n uint64) {
	_, _ = fmt.Sscanf(model, "cut%d", &n)
	return n
}
