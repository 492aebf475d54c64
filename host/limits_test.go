package host

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

func TestLimitsOfTheSystemAreNamed(t *testing.T) {
	for number, want := range map[syscall.Errno]string{
		syscall.EMFILE: fmt.Sprintf("too many open files: the process may open %d files at once (ulimit -n, LimitNOFILE=)",
			OpenFiles()),
		syscall.ENFILE: "fs.file-max",
		syscall.EAGAIN: "TasksMax=",
		syscall.ENOMEM: "MemoryMax=",
	} {
		err := NameLimit(&os.SyscallError{Syscall: "socketpair", Err: number})
		if edgewise.KindOf(err) != edgewise.Exhausted || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "socketpair: ") {
			t.Errorf("%v: %v, want %q", number, err, want)
		}
	}
	if err := NameLimit(io.EOF); err != io.EOF {
		t.Errorf("another error became %v", err)
	}
	if err := NameLimit(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}
