// Package uploads receives files that arrive in pieces, over days and restarts if need be, and unpacks archives of
// them.
//
// A piece counts once it is on disk: the offset and the state of the running SHA-256 are stored behind the bytes that
// they are about. After a crash the bytes behind the last stored offset are cut off, and the sender goes on from there.
package uploads
