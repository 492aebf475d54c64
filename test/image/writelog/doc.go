// Package writelog reads the log of writes that QEMU's blklogwrites keeps of a disk, and makes the disk as a power cut
// would have left it. A disk keeps what it was told to flush; what was written since, its cache may lose, in any order
// and in the middle of a write. Killing QEMU shows less: then everything that the guest has written is there.
package writelog
