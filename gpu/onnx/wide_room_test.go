package onnx

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/host"
)

func TestRoomForASecondCopyOfTheWeights(t *testing.T) {
	const mib = 1 << 20
	for _, test := range []struct {
		name    string
		files   map[string]string
		weights int64
		there   bool
	}{
		{"small ones, unseen", nil, smallWeights, true},
		{"nothing is known", nil, smallWeights + 1, false},
		{
			"enough",
			map[string]string{"proc/meminfo": "MemTotal: 9999999 kB\nMemAvailable:  1048576 kB\nHugePages_Total: 0\n"},
			256 * mib, true,
		},
		{
			"not enough",
			map[string]string{"proc/meminfo": "MemTotal: 99999999 kB\nMemAvailable: 1048575 kB\n"},
			256 * mib,
			false,
		},
		{"a container without a bound", map[string]string{
			"proc/meminfo":             "MemTotal: 99999999 kB\nMemAvailable: 1048576 kB\n",
			"sys/fs/cgroup/memory.max": "max\n", "sys/fs/cgroup/memory.current": "1073741824\n",
		}, 256 * mib, true},
		{"a container with room", map[string]string{
			"proc/meminfo":             "MemTotal: 99999999 kB\nMemAvailable: 9999999 kB\n",
			"sys/fs/cgroup/memory.max": "2147483648\n", "sys/fs/cgroup/memory.current": "1073741824\n",
		}, 256 * mib, true},
		{"a container without", map[string]string{
			"proc/meminfo":             "MemTotal: 99999999 kB\nMemAvailable: 9999999 kB\n",
			"sys/fs/cgroup/memory.max": "2147483648\n", "sys/fs/cgroup/memory.current": "1073741825\n",
		}, 256 * mib, false},
		{
			"a container that has more than it may",
			map[string]string{
				"proc/meminfo":             "MemTotal: 99999999 kB\nMemAvailable: 9999999 kB\n",
				"sys/fs/cgroup/memory.max": "1\n", "sys/fs/cgroup/memory.current": "2\n",
			},
			256 * mib, false,
		},
		{"no numbers", map[string]string{
			"proc/meminfo":             "MemTotal: 99999999 kB\nMemAvailable: much kB\n",
			"sys/fs/cgroup/memory.max": "all\n",
		}, 256 * mib, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range test.files {
				path := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := roomFor(test.weights, root)
			if (err == nil) != test.there || err != nil && edgewise.KindOf(err) != edgewise.Exhausted {
				t.Errorf("room for %d bytes: %v", test.weights, err)
			}
		})
	}
	if n := host.AvailableMemory("/"); n < mib {
		t.Errorf("%d bytes are available on this machine", n)
	}
}
