package host

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Cores returns the numbers of the cores that this process may run on, in the order in which runs are best given to
// them: one thread of each core before the second ones, and among them the faster ones first. What the system
// does not tell counts as equal.
func Cores(root string) []int {
	devices := filepath.Join(root, "sys/devices/system/cpu")
	var allowed unix.CPUSet
	if unix.SchedGetaffinity(0, &allowed) != nil {
		return nil
	}
	var list []core
	for number := range len(allowed) * 64 {
		if allowed.IsSet(number) {
			list = append(list, describe(devices, number))
		}
	}
	return ordered(list)
}

// core is what decides about the place of one.
type core struct {
	number  int
	sibling int // how many threads of the same core have lower numbers
	speed   int // relative to others of the machine; 0: unknown
}

func describe(devices string, number int) core {
	folder := filepath.Join(devices, "cpu"+strconv.Itoa(number))
	c := core{number: number}
	for _, n := range numbers(read(folder, "topology/thread_siblings_list")) {
		if n < number {
			c.sibling++
		}
	}
	for _, file := range []string{"cpu_capacity", "cpufreq/cpuinfo_max_freq"} {
		if n, err := strconv.Atoi(read(folder, file)); err == nil {
			c.speed = n
			break
		}
	}
	return c
}

func ordered(list []core) []int {
	slices.SortFunc(list, func(a, b core) int {
		return cmp.Or(cmp.Compare(a.sibling, b.sibling), cmp.Compare(b.speed, a.speed), cmp.Compare(a.number, b.number))
	})
	order := make([]int, len(list))
	for i, c := range list {
		order[i] = c.number
	}
	return order
}

// numbers reads a list such as "0,4" or "0-1,4".
func numbers(text string) (list []int) {
	for _, part := range strings.Split(text, ",") {
		from, to, span := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		if err != nil {
			continue
		}
		last := first
		if n, err := strconv.Atoi(to); span && err == nil {
			last = min(n, first+maxSiblings)
		}
		for n := first; n <= last; n++ {
			list = append(list, n)
		}
	}
	return list
}

// maxSiblings bounds the threads of one core.
const maxSiblings = 8

// read returns the first line of a file, without its end; nothing when it cannot be read.
func read(folder, name string) string {
	text, _ := os.ReadFile(filepath.Join(folder, name))
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}
