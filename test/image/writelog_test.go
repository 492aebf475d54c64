package image

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// memory is a disk in memory.
type memory []byte

func (m memory) WriteAt(p []byte, at int64) (int, error) { return copy(m[at:], p), nil }

func (m memory) Discard(at, size int64) error {
	clear(m[at : at+size])
	return nil
}

// logged makes a log as QEMU does: each line is a write of one letter into sectors, a discard or a flush.
type line struct {
	first, count, flags uint64
	letter              byte
}

func logged(lines ...line) []byte {
	log := make([]byte, sector)
	binary.LittleEndian.PutUint64(log[0:], logMagic)
	binary.LittleEndian.PutUint64(log[8:], logVersion)
	binary.LittleEndian.PutUint32(log[24:], sector)
	for _, l := range lines {
		head := make([]byte, sector)
		binary.LittleEndian.PutUint64(head[0:], l.first)
		binary.LittleEndian.PutUint64(head[8:], l.count)
		binary.LittleEndian.PutUint64(head[16:], l.flags)
		log = append(log, head...)
		if l.flags&flagDiscard == 0 {
			log = append(log, bytes.Repeat([]byte{l.letter}, int(l.count)*sector)...)
		}
	}
	return log
}

func played(t *testing.T, log []byte) (entries []logEntry, disk memory) {
	t.Helper()
	entries, err := readLog(bytes.NewReader(log), int64(len(log)))
	if err != nil {
		t.Fatal(err)
	}
	return entries, make(memory, 8*sector)
}

func letters(disk memory) string {
	var out []byte
	for at := 0; at < len(disk); at += sector {
		c := disk[at]
		if c == 0 {
			c = '.'
		}
		out = append(out, c)
	}
	return string(out)
}

func TestALogIsPlayedInItsOrder(t *testing.T) {
	log := logged(line{0, 4, 0, 'a'}, line{2, 4, flagFUA, 'b'}, line{0, 0, flagFlush, 0}, line{1, 2, flagDiscard, 0}, line{7, 1, 0, 'c'})
	entries, disk := played(t, log)
	if len(entries) != 5 || durable(entries, 5) != 3 || durable(entries, 2) != 0 {
		t.Fatalf("%d entries, durable %d and %d: want 5, 3 and 0", len(entries), durable(entries, 5), durable(entries, 2))
	}
	if err := play(disk, bytes.NewReader(log), entries); err != nil {
		t.Fatal(err)
	}
	if got := letters(disk); got != "a..bbb.c" {
		t.Errorf("the disk is %s: want a..bbb.c", got)
	}
	if last := entries[4].Logged; last != int64(len(log)) {
		t.Errorf("the last entry ends at %d: want %d, the log's end", last, len(log))
	}
}

func TestALogThatWasCutOffEndsBeforeTheCut(t *testing.T) {
	log := logged(line{0, 4, 0, 'a'}, line{4, 4, 0, 'b'})
	for _, cut := range []int{1, sector, 4 * sector, 5*sector - 1} {
		entries, err := readLog(bytes.NewReader(log[:len(log)-cut]), int64(len(log)-cut))
		if err != nil || len(entries) != 1 {
			t.Errorf("%d bytes less: %d entries, %v: want 1", cut, len(entries), err)
		}
	}
}

func TestWhatIsNoLogIsRefused(t *testing.T) {
	for name, spoil := range map[string]func([]byte){
		"magic":       func(l []byte) { l[0]++ },
		"version":     func(l []byte) { l[8]++ },
		"sector size": func(l []byte) { l[25] = 16 },
		"flags":       func(l []byte) { l[sector+17] = 1 },
		"length":      func(l []byte) { l[sector+15] = 1 },
	} {
		log := logged(line{0, 1, 0, 'a'})
		spoil(log)
		if _, err := readLog(bytes.NewReader(log), int64(len(log))); err == nil {
			t.Errorf("a log with another %s is read", name)
		}
	}
}

// TestACutLosesOnlyWhatWasNotFlushed cuts many times: what may be lost is lost now and then, and torn, and what was
// told to be durable never is.
func TestACutLosesOnlyWhatWasNotFlushed(t *testing.T) {
	log := logged(line{0, 2, 0, 'a'}, line{0, 0, flagFlush, 0}, line{2, 2, 0, 'b'}, line{4, 1, flagFUA, 'c'}, line{5, 2, 0, 'd'})
	random := rand.New(rand.NewPCG(1, 2))
	seen := map[string]int{}
	for range 400 {
		entries, disk := played(t, log)
		keep := durable(entries, len(entries))
		if err := play(disk, bytes.NewReader(log), entries[:keep]); err != nil {
			t.Fatal(err)
		}
		if err := lose(disk, bytes.NewReader(log), entries[keep:], random); err != nil {
			t.Fatal(err)
		}
		got := letters(disk)
		if got[:2] != "aa" || got[4] != 'c' {
			t.Fatalf("the disk is %s: what was flushed is lost", got)
		}
		seen[got[2:4]]++
		seen[got[5:7]]++
	}
	for _, want := range []string{"bb", "b.", "..", "dd", "d."} {
		if seen[want] == 0 {
			t.Errorf("of 400 cuts none left %s", want)
		}
	}
}
