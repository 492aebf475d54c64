package child

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// systemPaths are what a child reads beside its model: its own program, shared libraries, and what the C library and
// ONNX Runtime ask about the machine. Of /proc only what tells of the machine: the folders of processes lead to the
// memory of the parent, one thread of which is in the same Landlock domain as the child.
var systemPaths = []string{
	Program, "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache", "/etc/localtime",
	"/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version", "/proc/sys/vm/overcommit_memory",
	"/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm", "/dev/urandom",
}

// Program starts the running program again, also after its file has been replaced.
const Program = "/proc/self/exe"

// Access is what a child may use beside what every child may.
type Access struct {
	Environment []string // as key=value
	ReadPaths   []string // files and folders to read
	WritePaths  []string // folders to read, and to write files in
	Devices     []string // device files to read, write and control, as patterns of path/filepath
	Network     bool     // TCP
}

// With adds what other has. What other says of a variable counts.
func (a Access) With(other Access) Access {
	return Access{
		Environment: slices.Concat(a.Environment, other.Environment), ReadPaths: slices.Concat(a.ReadPaths, other.ReadPaths),
		WritePaths: slices.Concat(a.WritePaths, other.WritePaths), Devices: slices.Concat(a.Devices, other.Devices),
		Network: a.Network || other.Network,
	}
}

const (
	readRights  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_EXECUTE
	fileRights  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE
	writeRights = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE
)

// landlockAttr is the part of landlock_ruleset_attr that is used: newer kernels take shorter structures.
type landlockAttr struct{ files, network, scoped uint64 }

// rights returns what a version of Landlock can forbid, all of which is forbidden unless a rule allows it.
func rights(version int) landlockAttr {
	a := landlockAttr{files: unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1}
	steps := []func(){
		2: func() { a.files |= unix.LANDLOCK_ACCESS_FS_REFER },
		3: func() { a.files |= unix.LANDLOCK_ACCESS_FS_TRUNCATE },
		4: func() { a.network = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP },
		5: func() { a.files |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV },
		6: func() { a.scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL },
	}
	for v := 2; v < len(steps) && v <= version; v++ {
		steps[v]()
	}
	return a
}

// confine forbids the calling thread, for good, to gain privileges and to touch files outside those of a and
// systemPaths; every process it starts inherits that. The error says which protection the kernel lacks; the rest holds.
func confine(a Access) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	version, _, number := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if number != 0 {
		return fmt.Errorf("this kernel has no Landlock, or it is disabled: %w", number)
	}
	allowed := rights(int(version))
	folderRights := allowed.files &^ (unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR |
		unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV)
	if a.Network {
		allowed.network = 0
	}
	fd, _, number := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&allowed)),
		unsafe.Sizeof(allowed), 0)
	if number != 0 {
		return fmt.Errorf("making a Landlock ruleset: %w", number)
	}
	rules := int(fd)
	defer func() { _ = unix.Close(rules) }()
	err := allow(rules, "/dev/null", writeRights)
	for _, path := range append(a.ReadPaths, systemPaths...) {
		err = errors.Join(err, allow(rules, path, readRights))
	}
	for _, path := range a.WritePaths {
		err = errors.Join(err, allow(rules, path, folderRights))
	}
	for _, path := range matching(a.Devices) {
		err = errors.Join(err, allow(rules, path, writeRights|allowed.files&unix.LANDLOCK_ACCESS_FS_IOCTL_DEV))
	}
	if err != nil {
		return err
	}
	if _, _, number := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(rules), 0, 0); number != 0 {
		return fmt.Errorf("entering a Landlock ruleset: %w", number)
	}
	return nil
}

// matching lists the files that there are for patterns.
func matching(patterns []string) []string {
	var list []string
	for _, pattern := range patterns {
		found, _ := filepath.Glob(pattern) // a bad pattern matches nothing
		list = append(list, found...)
	}
	return list
}

// allow adds a rule for a file, or for a folder and what is below it. A path that does not exist needs none.
func allow(rules int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR && rights == readRights {
		rights = fileRights
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, number := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(rules), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if number != 0 {
		return fmt.Errorf("a Landlock rule for %s: %w", path, number)
	}
	return nil
}
