package host

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Thread is what the kernel has counted of a thread.
type Thread struct {
	Ran, Waited time.Duration // on a core, and for one
	Runnable    bool          // it runs, or waits for a core; Waited has the latter once that is over
}

// Threads returns the threads of a process by their number. It is empty when the process is gone, or the system does not
// tell.
func Threads(root string, pid int) map[int]Thread {
	folder := filepath.Join(root, "proc", strconv.Itoa(pid), "task")
	list, _ := os.ReadDir(folder)
	threads := map[int]Thread{}
	for _, entry := range list {
		number, err := strconv.Atoi(entry.Name())
		times := strings.Fields(read(filepath.Join(folder, entry.Name()), "schedstat"))
		stat := read(filepath.Join(folder, entry.Name()), "stat")
		state := strings.TrimSpace(stat[strings.LastIndex(stat, ")")+1:]) // behind the name, which may have anything
		if err != nil || len(times) < 2 || state == "" {
			continue // it has ended
		}
		ran, bad := strconv.ParseInt(times[0], 10, 64)
		waited, worse := strconv.ParseInt(times[1], 10, 64)
		if bad == nil && worse == nil {
			threads[number] = Thread{time.Duration(ran), time.Duration(waited), state[0] == 'R'}
		}
	}
	return threads
}

// Starved tells whether a thread had less than half of the time between two readings that it wanted to run in.
func Starved(before, after map[int]Thread, between time.Duration) bool {
	for number, now := range after {
		then := before[number]
		if now.Waited-then.Waited > between/2 || now.Runnable && now.Ran-then.Ran < between/2 {
			return true
		}
	}
	return false
}
