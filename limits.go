package edgewise

import (
	"errors"
	"syscall"
)

// NameLimit names the limit of the system that err is about, such as that of open files, in an error of the kind Exhausted.
// Other errors are returned as they are.
func NameLimit(err error) error {
	const op = "edgewise.NameLimit"
	switch {
	case errors.Is(err, syscall.EMFILE):
		return Errorf(op, Exhausted, "%w: the process may open %d files at once (ulimit -n, LimitNOFILE=)", err, OpenFiles())
	case errors.Is(err, syscall.ENFILE):
		return Errorf(op, Exhausted, "%w: the limit of the machine is fs.file-max", err)
	case errors.Is(err, syscall.EAGAIN):
		return Errorf(op, Exhausted, "%w: the limit of processes is reached (ulimit -u, TasksMax=, pids.max)", err)
	case errors.Is(err, syscall.ENOMEM):
		return Errorf(op, Exhausted, "%w: the memory of the machine or of the service is used up (MemoryMax=)", err)
	}
	return err
}

// OpenFiles returns how many files the process may open at once.
func OpenFiles() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return ^uint64(0)
	}
	return limit.Cur
}
