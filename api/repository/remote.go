package repository

import (
	"context"
	"io/fs"
)

// Tag tells states of a file apart where sizes and times do not. It is what Sys of the fs.FileInfo returns.
type Tag string

// Remote is a file system that lists what is elsewhere. A file can be opened when it was fetched.
type Remote interface {
	fs.FS
	// Fetch makes files readable: it fetches those that are not here yet. Errors: those of the place, Exhausted.
	Fetch(ctx context.Context, names []string) error
	// Keep remembers what is in a folder now as the state that serves when the place is away.
	Keep(dir string) error
}

// Fetch makes the files of one model readable.
func Fetch(ctx context.Context, files []File) error {
	var from Remote
	var names []string
	for _, f := range files {
		if remote, ok := f.fsys.(Remote); ok {
			from, names = remote, append(names, f.name)
		}
	}
	if from == nil {
		return nil
	}
	return from.Fetch(ctx, names)
}

// Keep remembers the state of the folder in a Remote, and does nothing for other ones.
func (f Folder) Keep() error {
	if remote, ok := f.repository.FS.(Remote); ok {
		return remote.Keep(f.dir)
	}
	return nil
}

// Dir returns the folder's name in the tree, "." for the whole of it.
func (f Folder) Dir() string { return f.dir }

// Configs are the files that hold configurations.
func (c *Contents) Configs() (list []File) {
	for _, f := range c.Shared {
		if f.isConfig() {
			list = append(list, f)
		}
	}
	return list
}
