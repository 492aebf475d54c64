package child

// forks are the older system calls that start processes: none on this architecture.
var forks []uint32
