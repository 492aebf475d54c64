package host

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit in which the kernel tells the time of processes: USER_HZ is 100 on every system that Go runs on.
const tick = 10 * time.Millisecond

// ProcessTime returns the processor time of a process and of all that live below it.
func ProcessTime(root string, pid int) (total time.Duration) {
	list, _ := os.ReadDir(filepath.Join(root, "proc"))
	parents, times := map[int]int{}, map[int]time.Duration{}
	for _, entry := range list {
		number, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat := read(filepath.Join(root, "proc", entry.Name()), "stat")
		fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:]) // behind the name, which may have anything
		if len(fields) < 13 {
			continue // it has ended
		}
		parents[number], _ = strconv.Atoi(fields[1])
		for _, field := range fields[11:13] { // in programs, in the kernel for them
			n, _ := strconv.ParseInt(field, 10, 64)
			times[number] += time.Duration(n) * tick
		}
	}
	for number, took := range times {
		for at, steps := number, 0; at > 1 && steps < len(parents); at, steps = parents[at], steps+1 {
			if at == pid {
				total += took
				break
			}
		}
	}
	return total
}
