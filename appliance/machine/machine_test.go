package machine

import (
	"os"
	"path/filepath"
	"testing"
)

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTheMachineIsRead(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "meminfo", "MemTotal:       2048 kB\nMemFree: 1 kB\nMemAvailable:   1024 kB\nHugePages_Total: 0\n")
	write(t, dir, "self/status", "Name:\tedgewise\nVmRSS:\t  512 kB\n")
	write(t, dir, "cpuinfo", "processor\t: 0\nmodel name\t: A Fast One\n")
	write(t, dir, "stat", "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 1 1\n")
	m := New(dir)
	if got := m.Memory(); got.Total != 2<<20 || got.Available != 1<<20 || got.Box != 512<<10 {
		t.Errorf("%+v", got)
	}
	write(t, dir, "stat", "cpu  150 0 150 900 0 0 0 0 0 0\n")
	m.Look()
	if got := m.CPU().Load; got != 0.5 {
		t.Errorf("load %v", got)
	}
	m.Look() // nothing has happened since
	if got := m.CPU().Load; got != 0.5 || m.Model() != "A Fast One" {
		t.Errorf("load %v, %q", got, m.Model())
	}
}

func TestAMachineThatCannotBeReadHasNothing(t *testing.T) {
	m := New(t.TempDir())
	if got := m.Memory(); got.Total != 0 || m.CPU().Load != 0 || m.Model() != "" {
		t.Errorf("%+v", got)
	}
}
