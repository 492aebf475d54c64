package controlgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// TestAProcessThatTakesMoreThanItsGroupHasIsEndedAndCounted runs a shell in a group of 32 MiB.
func TestAProcessThatTakesMoreThanItsGroupHasIsEndedAndCounted(t *testing.T) {
	g, err := New(fmt.Sprint("edgewise-test-", os.Getpid()), 32<<20)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		t.Skipf("groups are made by root, outside of a container: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, c := range []struct {
		bytes string
		ends  bool // the kernel ends a process of the group, and perhaps another one
	}{{"1000", false}, {"100000000", true}} {
		command := append(g.Wrapper(), "sh", "-c", `x=$(head -c "$0" /dev/zero | tr "\0" x); test -n "$x"`, c.bytes)
		err := exec.Command(command[0], command[1:]...).Run()
		if kills, problem := g.Kills(); problem != nil || kills > 0 != c.ends || (err != nil) != c.ends {
			t.Errorf("%s bytes: %v, %d processes ended, %v", c.bytes, err, kills, problem)
		}
	}
}
