// Package backend is the protocol between the appliance and a backend: a process that serves one instance of a version,
// in any language (docs/backends.md). It holds the frames in both directions, the server's half of a connection, and
// Serve, with which a program in Go is a backend.
//
// Neither half trusts the other: a decoder refuses what is too long, unknown or not complete, and every place in shared
// memory is checked before it is used.
package backend
