package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/auth"
	"github.com/edgewise-ai/edgewise/store"
	"github.com/edgewise-ai/edgewise/store/documents"
)

// looker makes the disks that cuts leave and looks into them without a start: which slot GRUB would take and whether it
// is whole, and, with the program's own code, whether the data are.
type looker struct {
	r        *recording
	dir      string
	durable  file // the disk as its flushes have made it, up to entry done
	done     int
	bootEnds int64 // where the boot partition ends
	slotB    [2]int64
	dataAt   int64
	newer    string // file of the slot that is installed
	keys     string // folder of the keys that drivers are signed with
}

// file is a file that is written to as a disk.
type file struct{ *os.File }

// Discard makes a hole.
func (f file) Discard(at, size int64) error {
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, size)
}

func (t *trial) looker(r *recording) (*looker, error) {
	path := t.machine.file("durable")
	if err := r.base.copy(path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	l := &looker{r: r, dir: t.machine.file("look"), durable: file{f}, keys: t.keys, newer: filepath.Join(t.image, "slot-"+t.newer+".squashfs")}
	now := disk(t.machine.disk) // which has partitions that the flashed one has not
	at, size, err := now.partition(1)
	if err != nil {
		return nil, err
	}
	l.bootEnds = at + size
	if l.slotB[0], l.slotB[1], err = now.partition(3); err != nil {
		return nil, err
	}
	if l.dataAt, _, err = now.partition(dataPartition); err != nil {
		return nil, err
	}
	return l, os.MkdirAll(l.dir, 0o755)
}

func (l *looker) close() {
	_ = l.durable.Close()
	_ = os.Remove(l.durable.Name())
}

// advance brings the durable disk to a cut after n entries, and returns what the cut may lose.
func (l *looker) advance(n int) ([]logEntry, error) {
	until := durable(l.r.entries, n)
	if until > l.done {
		if err := play(l.durable, l.r.log, l.r.entries[l.done:until]); err != nil {
			return nil, err
		}
		l.done = until
	}
	return l.r.entries[until:n], nil
}

// disk makes the whole disk that a cut after n entries leaves. Cuts are made in order.
func (l *looker) disk(to string, n int, seed uint64) error {
	lost, err := l.advance(n)
	if err != nil {
		return err
	}
	if err := execute("cp", "--sparse=always", l.durable.Name(), to); err != nil {
		return err
	}
	return l.lose(to, lost, n, seed)
}

func (l *looker) lose(disk string, lost []logEntry, n int, seed uint64) error {
	f, err := os.OpenFile(disk, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return lose(file{f}, l.r.log, lost, rand.New(rand.NewPCG(seed, uint64(n))))
}

// look says which slot GRUB takes after a cut after n entries. Errors: that slot is not whole, or the data are not.
func (l *looker) look(n int, seed uint64) (slot string, err error) {
	lost, err := l.advance(n)
	if err != nil {
		return "", err
	}
	path := filepath.Join(l.dir, "disk.img")
	if err := l.small(path); err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(path) }()
	if err := l.lose(path, lost, n, seed); err != nil {
		return "", err
	}
	values, err := disk(path).environment()
	if err != nil {
		return "", err
	}
	slot = taken(values)
	if slot == "B" {
		if err := l.wholeB(lost); err != nil {
			return "", fmt.Errorf("GRUB takes slot B: %w", err)
		}
	}
	return slot, disk(path).data(filepath.Join(l.dir, "data"), func(root string) error {
		return errors.Join(l.wholeData(filepath.Join(root, "var/lib/edgewise"), n),
			wholeDrivers(filepath.Join(root, "var/lib/edgewise-update/drivers"), l.keys))
	})
}

// taken is the slot that configs/image/esp/grub.cfg takes.
func taken(values map[string]string) string {
	for _, slot := range bytes.Fields([]byte(values["ORDER"])) {
		name := string(slot)
		if try := values[name+"_TRY"]; values[name+"_OK"] == "1" && (try == "0" || try == "1" || try == "2") {
			return name
		}
	}
	if values["A_OK"] == "1" || values["B_OK"] != "1" { // none is good: slot A holds a system in these tests
		return "A"
	}
	return "B"
}

// small copies what is not in a slot: the parts before and behind them, without their holes.
func (l *looker) small(to string) error {
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	info, err := l.durable.Stat()
	if err != nil {
		return err
	}
	if err := out.Truncate(info.Size()); err != nil {
		return err
	}
	for _, part := range [][2]int64{{0, l.bootEnds}, {l.dataAt, info.Size()}} {
		if err := copyData(out, l.durable.File, part[0], part[1]); err != nil {
			return err
		}
	}
	return nil
}

// copyData copies what is not a hole of a part of a file.
func copyData(to, from *os.File, at, end int64) error {
	for at < end {
		begin, err := unix.Seek(int(from.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) || err == nil && begin >= end {
			return nil
		}
		if err != nil {
			return err
		}
		if at, err = unix.Seek(int(from.Fd()), begin, unix.SEEK_HOLE); err != nil {
			return err
		}
		at = min(at, end)
		if _, err := io.Copy(io.NewOffsetWriter(to, begin), io.NewSectionReader(from, begin, at-begin)); err != nil {
			return err
		}
	}
	return nil
}

// wholeB compares slot B with the slot that was installed; nothing of it may have been at risk when it is taken.
func (l *looker) wholeB(lost []logEntry) error {
	for _, e := range lost {
		if e.Size > 0 && e.At < l.slotB[0]+l.slotB[1] && e.At+e.Size > l.slotB[0] {
			return errors.New("a write to it was not flushed")
		}
	}
	want, err := os.Open(l.newer)
	if err != nil {
		return err
	}
	defer func() { _ = want.Close() }()
	info, err := want.Stat()
	if err != nil {
		return err
	}
	installed, slot := sha256.New(), sha256.New()
	if _, err := io.Copy(installed, want); err != nil {
		return err
	}
	if _, err := io.Copy(slot, io.NewSectionReader(l.durable, l.slotB[0], info.Size())); err != nil {
		return err
	}
	if !bytes.Equal(installed.Sum(nil), slot.Sum(nil)) {
		return errors.New("it is not what was to be installed")
	}
	return nil
}

// wholeData opens the data as the program does: every file has its digest, the account opens, and every model that was
// acknowledged before the cut after n entries is there.
func (l *looker) wholeData(dir string, n int) error {
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	report, err := s.Verify(context.Background())
	if err != nil {
		return err
	}
	if len(report.Findings) > 0 {
		return fmt.Errorf("the store has findings: %+v", report.Findings)
	}
	if err := wholeModel(s, "mine", fileContent(ownModel)); err != nil {
		return err
	}
	for model, size := range l.r.models {
		if size > l.r.entries[n-1].Logged {
			continue
		}
		if err := wholeModel(s, model, network(seedOf(model))); err != nil {
			return err
		}
	}
	return wholeAccount(dir)
}

func fileContent(path string) []byte {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return content
}

func wholeModel(s *store.Store, model string, want []byte) error {
	folder, err := s.Dir(edgewise.ModelID{Name: model, Version: 1})
	if err != nil {
		return fmt.Errorf("model %s, which was acknowledged: %w", model, err)
	}
	if got := fileContent(filepath.Join(folder, "model.onnx")); len(got) == 0 || !bytes.Equal(got, want) {
		return fmt.Errorf("model %s, which was acknowledged: %d bytes, not the %d that were sent", model, len(got), len(want))
	}
	return nil
}

// wholeAccount lets the user in who claimed the box.
func wholeAccount(dir string) error {
	documents, err := documents.Open(dir, documents.Options{SnapshotEvery: -1})
	if err != nil {
		return err
	}
	defer func() { _ = documents.Close() }()
	accounts, err := auth.Open(auth.Config{Documents: documents, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	_, err = accounts.Login(admin.Login{User: "admin", Password: password}, auth.Caller{Address: "127.0.0.1"})
	return err
}
