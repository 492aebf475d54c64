package disk

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestLargeWritesGoPastThePageCache(t *testing.T) {
	f, _ := createFile(t)
	r := buffers()
	steps := []struct {
		name   string
		write  []byte
		direct bool
	}{
		{"a buffer", r[0], true},
		{"a small write", r[1][:DirectBlock], false},
		{"another buffer", r[2], true},
		{"an odd tail", r[0][:bufferBytes-1], false},
		{"a buffer at an odd offset", r[1], false},
	}
	for _, s := range steps {
		if _, err := f.Write(s.write); err != nil {
			t.Fatal(err)
		}
		flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
		if err != nil {
			t.Fatal(err)
		}
		if f.buffered { // this file system refuses: nothing may be left of the attempt
			s.direct = false
		}
		if got := flags&unix.O_DIRECT != 0; got != s.direct || f.direct != s.direct {
			t.Errorf("%s: past the page cache %v, noted as %v: want %v", s.name, got, f.direct, s.direct)
		}
	}
}
