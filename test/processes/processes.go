// Package processes looks at the processes of programs under test.
package processes

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Children returns the process ids of a process's children, by the threads that started them.
func Children(pid int) (pids []int, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil || len(threads) == 0 {
		return nil, fmt.Errorf("process %d has no threads: %w", pid, err)
	}
	for _, path := range threads {
		list, _ := os.ReadFile(path) // a thread that has just ended has no children
		for _, field := range strings.Fields(string(list)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				return nil, err
			}
			pids = append(pids, child)
		}
	}
	return pids, nil
}

// Began returns when a process began, in ticks of the kernel's clock since the machine began. The order of process ids does
// not tell: after the largest id the kernel gives small ones again.
func Began(pid int) (ticks uint64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	const state, began = 3, 22 // fields, from 1; the name before the state may have spaces
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) <= began-state {
		return 0, fmt.Errorf("process %d: its status is %q", pid, text)
	}
	return strconv.ParseUint(fields[began-state], 10, 64)
}

// PrivateBytes returns the bytes of a process's private pages, those of ONNX Runtime's file apart.
func PrivateBytes(pid int) (own, library int64, err error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = f.Close() }()
	into, lines := &own, bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) >= 5 && !strings.HasSuffix(fields[0], ":"): // the head of a mapping
			into = &own
			if strings.Contains(lines.Text(), "libonnxruntime") {
				into = &library
			}
		case len(fields) == 3 && strings.HasPrefix(fields[0], "Private_"):
			kb, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return 0, 0, err
			}
			*into += kb << 10
		}
	}
	return own, library, lines.Err()
}

// ProcessorTime returns the processor time that a process and its children that run have used, in user and kernel.
func ProcessorTime(pid int) (sum time.Duration, err error) {
	children, err := Children(pid)
	if err != nil {
		return 0, err
	}
	for _, id := range append(children, pid) {
		const ofAllThreads = 2 // what clock_getcpuclockid of the C library adds
		var used unix.Timespec
		if err := unix.ClockGettime(int32(^id<<3|ofAllThreads), &used); err != nil {
			return 0, fmt.Errorf("process %d: %w", id, err)
		}
		sum += time.Duration(used.Nano())
	}
	return sum, nil
}
