package runner

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxFiles bounds the open files of a child.
const maxFiles = 1024

// limit lowers what this process may use: no core files, no files written, few descriptors, and addressSpace bytes of
// address space unless that is 0. The driver of a GPU takes address space for all the memory that there is, and makes
// files in memory; so a process on a GPU has no bounds of these two.
func limit(addressSpace uint64, onGPU bool) error {
	files, err := fewerFiles(maxFiles)
	if err != nil {
		return err
	}
	limits := []struct {
		name     string
		resource int
		value    uint64
	}{
		{"core files", unix.RLIMIT_CORE, 0},
		{"written files", unix.RLIMIT_FSIZE, 0},
		{"open files", unix.RLIMIT_NOFILE, files},
		{"address space", unix.RLIMIT_AS, addressSpace},
	}
	for _, l := range limits {
		if l.resource == unix.RLIMIT_AS && l.value == 0 {
			continue
		}
		if onGPU && (l.resource == unix.RLIMIT_AS || l.resource == unix.RLIMIT_FSIZE) {
			continue
		}
		if err := unix.Setrlimit(l.resource, &unix.Rlimit{Cur: l.value, Max: l.value}); err != nil {
			return fmt.Errorf("limit of %s: %w", l.name, err)
		}
	}
	return nil
}

// fewerFiles returns how many files a child may open: most, or what it was started with when that is less.
func fewerFiles(most uint64) (uint64, error) {
	var present unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &present); err != nil {
		return 0, fmt.Errorf("limit of open files: %w", err)
	}
	return min(most, present.Max), nil
}

// limitTime lets this process take so many seconds of processor time and then end by SIGXCPU; 0: without end.
func limitTime(seconds uint64) error {
	if seconds == 0 {
		seconds = unix.RLIM_INFINITY
	}
	if err := unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: seconds, Max: unix.RLIM_INFINITY}); err != nil {
		return fmt.Errorf("limit of processor time: %w", err)
	}
	return nil
}

// refused are the system calls that no model needs: new sockets and programs, other processes' memory, and parts of the
// kernel that have been ways out of it.
var refused = []uint32{
	unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_EXECVE, unix.SYS_EXECVEAT,
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN,
	unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_MOUNT, unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_TKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO,
	unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_PIDFD_GETFD, unix.SYS_PROCESS_MADVISE,
}

// Offsets in the kernel's seccomp_data.
const (
	dataNumber = 0
	dataArch   = 4
	dataFirst  = 16 // low half of the first argument
)

// x32 marks the numbers of amd64's second set of system calls, which nothing here uses.
const x32 = 0x40000000

// filter is the program that decides on each system call: what is refused gives EPERM, and signals go to this process
// only.
func filter(pid int) []unix.SockFilter {
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	jump := func(test uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jt: yes, Jf: no, K: k}
	}
	verdict := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	arch := uint32(unix.AUDIT_ARCH_X86_64)
	if runtime.GOARCH == "arm64" {
		arch = unix.AUDIT_ARCH_AARCH64
	}
	deny := verdict(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM))
	code := []unix.SockFilter{
		load(dataArch), jump(unix.BPF_JEQ, arch, 1, 0), deny,
		load(dataNumber), jump(unix.BPF_JGE, x32, 0, 1), deny,
	}
	for _, number := range refused {
		code = append(code, jump(unix.BPF_JEQ, number, 0, 1), deny)
	}
	return append(
		code,
		jump(unix.BPF_JEQ, unix.SYS_KILL, 2, 0),
		jump(unix.BPF_JEQ, unix.SYS_TGKILL, 1, 0),
		verdict(unix.SECCOMP_RET_ALLOW),
		load(dataFirst),
		jump(unix.BPF_JEQ, uint32(pid), 0, 1),
		verdict(unix.SECCOMP_RET_ALLOW),
		deny,
	)
}

// refuse installs the filter on every thread of this process, now and to come.
func refuse() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	code := filter(unix.Getpid())
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	failed, _, number := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	if number != 0 || failed != 0 {
		return fmt.Errorf("filter of system calls: thread %d: %w", failed, number)
	}
	return nil
}
