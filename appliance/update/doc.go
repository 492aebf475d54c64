// Package update drives RAUC, which writes signed updates of the system into the slot that does not run, over D-Bus. It
// decides nothing about signatures or slots: RAUC does. Only an image has RAUC; elsewhere Open says so.
package update
