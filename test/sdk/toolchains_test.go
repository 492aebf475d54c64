package sdk

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A machine without compilers, and without a way to install them, hears once of each what is missing and how to get it.
func TestTheInstallerOfToolchainsSaysWhichAreMissing(t *testing.T) {
	t.Parallel()
	bare, temporary := t.TempDir(), t.TempDir()
	for _, tool := range []string{"sh", "dirname", "id", "cmp", "mkdir", "cp", "rm", "mktemp"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bare, tool)); err != nil {
			t.Fatal(err)
		}
	}
	script, err := filepath.Abs("../../configs/toolchains/install.sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(bare, "sh"), script, filepath.Join(t.TempDir(), "modules"))
	cmd.Env = []string{"PATH=" + bare, "TMPDIR=" + temporary}
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("it ends with %v", err)
	}
	missing := []string{"missing: clang-19 ", "missing: the AssemblyScript compiler: "}
	if _, err := os.Stat("/usr/bin/rustc"); err != nil { // which it looks for by that name
		missing = append(missing, "missing: rustc ")
	}
	for _, line := range missing {
		if strings.Count(string(out), line) != 1 {
			t.Errorf("not once %q in\n%s", line, out)
		}
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("%d files left behind, %v", len(left), err)
	}
}
