package wasm

import "syscall"

// reserve maps size bytes of zeros that take no memory until they are touched.
func reserve(size int) ([]byte, error) {
	return syscall.Mmap(-1, 0, max(size, 1), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
}

// release unmaps it. The only error is that it was not mapped, which cannot be.
func release(space []byte) { _ = syscall.Munmap(space) }
