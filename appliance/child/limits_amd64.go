package child

import "golang.org/x/sys/unix"

// forks are the older system calls that start processes.
var forks = []uint32{unix.SYS_FORK, unix.SYS_VFORK}
