package main

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// anywhere is no core in particular.
const anywhere = -1

// pinned calls do on a thread that may only run on a core, and so may the processes that do starts. The thread ends
// with it.
func pinned(core int, do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		done <- func() error {
			if core != anywhere {
				var set unix.CPUSet
				set.Set(core)
				if err := unix.SchedSetaffinity(0, &set); err != nil {
					return err
				}
			}
			return do()
		}()
	}()
	return <-done
}
