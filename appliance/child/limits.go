package child

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxFiles bounds the open files of a child.
const maxFiles = 1024

// Limits are what a process may use. It writes no core files, and opens maxFiles at most.
type Limits struct {
	AddressSpace uint64 `json:"address_space"` // bytes; 0: no bound
	Memory       uint64 `json:"memory"`        // bytes of private memory; 0: no bound
	FileSize     uint64 `json:"file_size"`     // bytes of a file that it writes
	AnyFileSize  bool   `json:"any_file_size"` // no bound of that
}

// Limit lowers what this process may use.
func Limit(l Limits) error {
	files, err := fewerFiles(maxFiles)
	if err != nil {
		return err
	}
	limits := []struct {
		name     string
		resource int
		value    uint64
		unset    bool
	}{
		{"core files", unix.RLIMIT_CORE, 0, false},
		{"written files", unix.RLIMIT_FSIZE, l.FileSize, l.AnyFileSize},
		{"open files", unix.RLIMIT_NOFILE, files, false},
		{"address space", unix.RLIMIT_AS, l.AddressSpace, l.AddressSpace == 0},
		{"memory", unix.RLIMIT_DATA, l.Memory, l.Memory == 0},
	}
	for _, l := range limits {
		if l.unset {
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

// LimitTime lets this process take so many seconds of processor time and then end by SIGXCPU; 0: without end.
func LimitTime(seconds uint64) error {
	if seconds == 0 {
		seconds = unix.RLIM_INFINITY
	}
	if err := unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: seconds, Max: unix.RLIM_INFINITY}); err != nil {
		return fmt.Errorf("limit of processor time: %w", err)
	}
	return nil
}

// Permission are system calls that a child may use although models of the box need none of them.
type Permission struct {
	Programs bool `json:"programs"` // it may start programs in its own place
	Pairs    bool `json:"pairs"`    // it may make connected sockets
	Network  bool `json:"network"`  // it may make any sockets
	Forks    bool `json:"forks"`    // it may start processes, which stay in its group
}

// refusedTo are the system calls that a child may not use.
func refusedTo(p Permission) []uint32 {
	list := slices.Clone(refused)
	for _, group := range []struct {
		allowed bool
		calls   []uint32
	}{
		{p.Programs, []uint32{unix.SYS_EXECVE, unix.SYS_EXECVEAT}},
		{p.Pairs || p.Network, []uint32{unix.SYS_SOCKETPAIR}},
		{p.Network, []uint32{unix.SYS_SOCKET, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN}},
		{false, []uint32{unix.SYS_SETSID, unix.SYS_SETPGID}}, // the end of a child is the end of its group
	} {
		if !group.allowed {
			list = append(list, group.calls...)
		}
	}
	return list
}

// refused are the system calls that nobody needs: other processes' memory, and parts of the kernel that have been ways
// out of it.
var refused = []uint32{
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

// filter is the program that decides on each system call: what is refused gives EPERM, signals go to this process only,
// and it makes threads alone unless it may fork. clone3, whose flags no filter can read, is said to be missing then.
func filter(pid int, p Permission) []unix.SockFilter {
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
	for _, number := range refusedTo(p) {
		code = append(code, jump(unix.BPF_JEQ, number, 0, 1), deny)
	}
	if !p.Forks {
		missing := verdict(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS))
		for _, number := range forks {
			code = append(code, jump(unix.BPF_JEQ, number, 0, 1), deny)
		}
		code = append(
			code,
			jump(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1), missing,
			jump(unix.BPF_JEQ, unix.SYS_CLONE, 0, 4),
			load(dataFirst), jump(unix.BPF_JSET, unix.CLONE_THREAD, 1, 0), deny,
			verdict(unix.SECCOMP_RET_ALLOW),
		)
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

// Refuse installs the filter on every thread of this process, now and to come.
func Refuse(p Permission) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	code := filter(unix.Getpid(), p)
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	failed, _, number := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	if number != 0 || failed != 0 {
		return fmt.Errorf("filter of system calls: thread %d: %w", failed, number)
	}
	return nil
}
