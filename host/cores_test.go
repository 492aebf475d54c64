package host

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
)

func TestCoresAreOrdered(t *testing.T) {
	type files map[string]string
	for _, test := range []struct {
		name  string
		files files
		cores int
		want  []int
	}{
		{"nothing is known", files{}, 3, []int{0, 1, 2}},
		{"two threads a core, side by side", files{
			"0/topology/thread_siblings_list": "0-1\n", "1/topology/thread_siblings_list": "0-1\n",
			"2/topology/thread_siblings_list": "2-3\n", "3/topology/thread_siblings_list": "2-3\n",
		}, 4, []int{0, 2, 1, 3}},
		{"two threads a core, apart", files{
			"0/topology/thread_siblings_list": "0,2\n", "1/topology/thread_siblings_list": "1,3\n",
			"2/topology/thread_siblings_list": "0,2\n", "3/topology/thread_siblings_list": "1,3\n",
		}, 4, []int{0, 1, 2, 3}},
		{
			"slow and fast ones",
			files{"0/cpu_capacity": "446\n", "1/cpu_capacity": "446\n", "2/cpu_capacity": "1024\n"},
			3,
			[]int{2, 0, 1},
		},
		{"slow ones before the second threads of fast ones", files{
			"0/topology/thread_siblings_list": "0-1\n", "1/topology/thread_siblings_list": "0-1\n",
			"2/topology/thread_siblings_list": "2\n",
			"0/cpufreq/cpuinfo_max_freq":      "5000000\n", "1/cpufreq/cpuinfo_max_freq": "5000000\n",
			"2/cpufreq/cpuinfo_max_freq": "3800000\n",
		}, 3, []int{0, 2, 1}},
		{"files that say nothing", files{
			"0/topology/thread_siblings_list": "x-,9-y\n",
			"1/topology/thread_siblings_list": "0-99999999999\n", "0/cpu_capacity": "fast\n",
		}, 2, []int{0, 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			devices := t.TempDir()
			for name, text := range test.files {
				path := filepath.Join(devices, "cpu"+name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var list []core
			for n := range test.cores {
				list = append(list, describe(devices, n))
			}
			if got := ordered(list); !slices.Equal(got, test.want) {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}

func TestCoresOfThisMachine(t *testing.T) {
	got := Cores("/")
	if len(got) < 1 || len(got) < runtime.GOMAXPROCS(0) && os.Getenv("GOMAXPROCS") == "" {
		t.Errorf("%v, and Go uses %s cores", got, strconv.Itoa(runtime.GOMAXPROCS(0)))
	}
	slices.Sort(got)
	if len(slices.Compact(got)) != len(got) {
		t.Errorf("a core twice: %v", got)
	}
}
