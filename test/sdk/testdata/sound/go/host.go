//go:build !wasip1

package main

// main does nothing: the step runs as a guest only. With it the folder is a package on every system, for go vet.
func main() {}
