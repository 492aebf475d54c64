// Package store keeps the immutable versions of models on disk: a bbolt catalog beside content-addressed files.
//
// A version exists from the one catalog transaction that names it. Everything before that transaction is garbage which
// [Open] sweeps; everything after it survives a loss of power. All bytes that a version names are on disk, synced and
// in place, before the transaction begins.
//
// The formats, the order of writes and what recovery does are described in docs/formats/store.md.
package store
