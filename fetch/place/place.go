// Package place is what the clients of stores have in common: a tree of files at a URL.
package place

import (
	"context"
	"io"

	"github.com/edgewise-ai/edgewise/api/fetch"
)

// Place is a tree of files at one URL. Its methods are safe for concurrent use. Their errors are *fetch.Failure without
// an object, in words without secrets.
type Place interface {
	// List gives every file to page, in pages of at most fetch.MaxPage, and ends with the error that page returns.
	List(ctx context.Context, page func([]fetch.Entry) error) error
	// Open reads a file from offset on. Errors: Changed when the file is not what e says any more.
	Open(ctx context.Context, e fetch.Entry, offset int64) (io.ReadCloser, error)
	Close() error
}

// Resolver is a Place whose URL may name something that changes.
type Resolver interface {
	// Resolve returns the digest of what the URL names now, as sha256:HEX.
	Resolve(ctx context.Context) (string, error)
}

// Putter is a Place that files can be sent to.
type Putter interface {
	// Put sends the files of a request and tells fetched of each. It returns the digest of the whole.
	Put(ctx context.Context, r *fetch.Request, fetched func(fetch.Fetched) error) (string, error)
}

// Signer is a Place that signatures can be sent to.
type Signer interface {
	// Sign signs what the URL names with a private key, and returns its digest.
	Sign(ctx context.Context, key string) (string, error)
}

// Artifacts is a Place whose files are those of artifacts.
type Artifacts interface {
	// Describe has List tell what each artifact is, before its files.
	Describe(tell func(fetch.Artifact) error)
}

// Opener opens the place at the URL of a request, with its credentials and no more rights than its command wants.
type Opener func(ctx context.Context, r *fetch.Request) (Place, error)

// Sum says how the bytes of a body are known to be right, beside their SHA-256 where the list has one.
type Sum int

// How the bytes of a body are known to be right.
const (
	SumListed   Sum = iota // they have the MD5 of the entry, where it has one
	SumVerified            // read from offset 0, the body ends with an error instead of io.EOF unless they have the store's checksum
	SumNone                // the MD5 of the entry is not theirs, although nothing is wrong
)

// Summed is a body that says it. Others are SumListed.
type Summed interface{ Sum() Sum }
