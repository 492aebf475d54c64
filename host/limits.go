package host

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/edgewise-ai/edgewise"
)

// NameLimit names the limit of the system that err is about, such as that of open files, in an error of the kind
// Exhausted. Other errors are returned as they are.
func NameLimit(err error) error {
	const op = "host.NameLimit"
	switch {
	case errors.Is(err, syscall.EMFILE):
		return edgewise.Errorf(op, edgewise.Exhausted, "%w: the process may open %d files at once (ulimit -n, LimitNOFILE=)", err, OpenFiles())
	case errors.Is(err, syscall.ENFILE):
		return edgewise.Errorf(op, edgewise.Exhausted, "%w: the limit of the machine is fs.file-max", err)
	case errors.Is(err, syscall.EAGAIN):
		return edgewise.Errorf(op, edgewise.Exhausted, "%w: the limit of processes is reached (ulimit -u, TasksMax=, pids.max)", err)
	case errors.Is(err, syscall.ENOMEM):
		return edgewise.Errorf(op, edgewise.Exhausted, "%w: the memory of the machine or of the service is used up (MemoryMax=)", err)
	}
	return err
}

// Scores of processes for the kernel, which ends the one with the highest when memory runs out: what can be done
// without goes first.
const (
	ScoreOfModels = 800  // the process of a model, which is started again
	ScoreOfChecks = 1000 // a process that looks at something once
)

// EndEarly raises the score of a process, 0 for this one. A score that is higher already stays.
func EndEarly(pid, score int) error {
	path := "/proc/self/oom_score_adj"
	if pid > 0 {
		path = fmt.Sprintf("/proc/%d/oom_score_adj", pid)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if present, err := strconv.Atoi(strings.TrimSpace(string(text))); err != nil || present >= score {
		return err
	}
	return os.WriteFile(path, []byte(strconv.Itoa(score)), 0)
}

// OpenFiles returns how many files the process may open at once.
func OpenFiles() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return ^uint64(0)
	}
	return limit.Cur
}
