// Package backends tests the backends that are not written in Go.
package backends
