package host

import (
	"os"
	"path/filepath"
	"testing"
)

func write(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLoadIsThatBetweenTwoReadings(t *testing.T) {
	root := t.TempDir()
	if _, ok := NewLoad(root).Read(); ok {
		t.Error("a load without a file")
	}
	write(t, root, "proc/stat", "cpu  100 0 100 700 100 0 0 0 50 50\ncpu0 1 2 3\n")
	l := NewLoad(root)
	write(t, root, "proc/stat", "cpu  130 0 120 740 110 0 0 0 99 99\n")
	if load, ok := l.Read(); !ok || load != 0.5 || l.Last() != 0.5 {
		t.Errorf("the load is %v, %v, the last one %v", load, ok, l.Last())
	}
	write(t, root, "proc/stat", "cpu  131 0 120 740 110 0 0 0 99 99\n")
	if load, _ := l.Read(); load != 0.5 {
		t.Errorf("the load of an instant is %v", load)
	}
	for _, bad := range []string{"", "intr 1 2 3 4 5\n", "cpu 1 2\n", "cpu a b c d e f\n"} {
		write(t, root, "proc/stat", bad)
		if _, ok := l.Read(); ok {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestMemoryIsReadWhole(t *testing.T) {
	root := t.TempDir()
	if _, _, ok := Memory(root); ok || AvailableMemory(root) != 0 {
		t.Error("memory without a file")
	}
	write(t, root, "proc/meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    400 kB\nHugePages_Total: 0\n")
	if total, available, ok := Memory(root); !ok || total != 1000<<10 || available != 400<<10 {
		t.Errorf("memory is %d, %d, %v", total, available, ok)
	}
	for _, bad := range []string{
		"", "MemTotal: x kB\nMemAvailable: 1 kB\n", "MemTotal: 1 kB\nMemAvailable: 2 kB\n", "MemTotal: 5 kB\n",
		"MemTotal: -1 kB\nMemAvailable: -1 kB\n",
	} {
		write(t, root, "proc/meminfo", bad)
		if _, _, ok := Memory(root); ok {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestMemoryIsBoundedByControlGroups(t *testing.T) {
	root := t.TempDir()
	write(t, root, "proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 400 kB\n")
	want := func(total, available int64) {
		t.Helper()
		if TotalMemory(root) != total || AvailableMemory(root) != available {
			t.Errorf("%d and %d bytes, want %d and %d", TotalMemory(root), AvailableMemory(root), total, available)
		}
	}
	want(1000<<10, 400<<10)
	write(t, root, "sys/fs/cgroup/memory.max", "800000\n") // a container's
	write(t, root, "sys/fs/cgroup/memory.current", "500000\n")
	want(800000, 300000)
	write(t, root, "proc/self/cgroup", "0::/system.slice/edgewise.service\n")
	write(t, root, "sys/fs/cgroup/system.slice/memory.max", "max\n")
	write(t, root, "sys/fs/cgroup/system.slice/edgewise.service/memory.max", "600000\n")
	write(t, root, "sys/fs/cgroup/system.slice/edgewise.service/memory.current", "600001\n")
	want(600000, 0)
	write(t, root, "proc/self/cgroup", "1:name=systemd:/a\n0::/../../elsewhere\n")
	want(800000, 300000)
	write(t, root, "sys/fs/cgroup/memory.stat", "anon 1\ninactive_file 20000\nactive_file 3000\nshmem 5\n")
	want(800000, 323000) // files that are kept in memory are taken back
}

func TestMemoryIsBoundedByTheFirstVersionOfControlGroups(t *testing.T) {
	root, group := t.TempDir(), "sys/fs/cgroup/memory/docker/box/"
	write(t, root, "proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 400 kB\n")
	write(t, root, "proc/self/cgroup", "5:cpu,memory:/docker/box\n1:name=systemd:/a\n0::/\n")
	write(t, root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
	write(t, root, "sys/fs/cgroup/memory/memory.usage_in_bytes", "900000\n")
	write(t, root, group+"memory.limit_in_bytes", "600000\n")
	write(t, root, group+"memory.usage_in_bytes", "590000\n")
	write(t, root, group+"memory.stat", "inactive_file 7\ntotal_inactive_file 40000\ntotal_active_file 1000\n")
	if TotalMemory(root) != 600000 || AvailableMemory(root) != 51000 {
		t.Errorf("%d and %d bytes", TotalMemory(root), AvailableMemory(root))
	}
}

func TestProcessesAreRead(t *testing.T) {
	root := t.TempDir()
	write(t, root, "proc/self/status", "Name:\tedgewise\nVmRSS:\t  512 kB\n")
	write(t, root, "proc/7/status", "VmData:\t  3 kB\n")
	if n, ok := ProcessBytes(root, 0, Resident); !ok || n != 512<<10 {
		t.Errorf("%d, %v", n, ok)
	}
	if n, ok := ProcessBytes(root, 7, Data); !ok || n != 3<<10 {
		t.Errorf("%d, %v", n, ok)
	}
	if _, ok := ProcessBytes(root, 8, Data); ok {
		t.Error("a process that is gone is read")
	}
}

func TestTheProcessorHasAName(t *testing.T) {
	root := t.TempDir()
	if name := Processor(root); name != "" {
		t.Errorf("%q", name)
	}
	write(t, root, "proc/device-tree/model", "A Board\x00")
	if name := Processor(root); name != "A Board" {
		t.Errorf("%q", name)
	}
	write(t, root, "proc/cpuinfo", "processor\t: 0\nmodel name\t: A Fast One\n")
	if name := Processor(root); name != "A Fast One" {
		t.Errorf("%q", name)
	}
}
