// Package bucket reads trees of files in object stores, through gocloud.dev.
package bucket

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gocloud.dev/blob"

	"github.com/edgewise-ai/edgewise/api/fetch"
	"github.com/edgewise-ai/edgewise/fetch/place"
)

// bucket is the part of a bucket below a prefix.
type bucket struct {
	*blob.Bucket
	client client
	prefix string // empty, or with "/" at its end
}

// client is what differs between object stores.
type client interface {
	// describe adds what the store's list says of an object: the mark of its state, and checksums that gocloud does not know.
	describe(o *blob.ListObject, e *fetch.Entry)
	// only makes a read fail unless the object still has a tag.
	only(tag string) func(as func(any) bool) error
	// opened returns the mark of the state of the object that is read, "" where the store does not say it, and how its bytes
	// are known to be right.
	opened(r *blob.Reader) (tag string, sum place.Sum)
	// explain returns the kind of an error of the store and what it says; "" for both when it is none of those.
	explain(err error) (kind, message string)
}

var (
	_ place.Place  = (*bucket)(nil)
	_ place.Putter = (*bucket)(nil)
)

// below returns the prefix of objects below a path.
func below(path string) string {
	if path = strings.Trim(path, "/"); path == "" {
		return ""
	}
	return path + "/"
}

// List lists the objects. That there are none is NotFound, except of the whole bucket, which is there.
func (b *bucket) List(ctx context.Context, page func([]fetch.Entry) error) error {
	token, found := blob.FirstPageToken, false
	for len(token) > 0 {
		objects, next, err := b.ListPage(ctx, token, fetch.MaxPage, &blob.ListOptions{Prefix: b.prefix})
		if err != nil {
			return b.failure(err)
		}
		var entries []fetch.Entry
		for _, o := range objects {
			found = true
			name := strings.TrimPrefix(o.Key, b.prefix)
			if name == "" || len(name) > fetch.MaxName {
				continue
			}
			e := fetch.Entry{Name: name, Size: o.Size, Changed: o.ModTime.UnixNano()}
			if len(o.MD5) == md5.Size {
				e.MD5 = hex.EncodeToString(o.MD5)
			}
			b.client.describe(o, &e)
			entries = append(entries, e)
		}
		if len(entries) > 0 {
			if err := page(entries); err != nil {
				return err
			}
		}
		token = next
	}
	if !found && b.prefix != "" {
		return fetch.Failf(fetch.NotFound, "there is no object below %q", b.prefix)
	}
	return nil
}

// Open reads an object.
func (b *bucket) Open(ctx context.Context, e fetch.Entry, offset int64) (io.ReadCloser, error) {
	o := &blob.ReaderOptions{}
	if e.Tag != "" {
		o.BeforeRead = b.client.only(e.Tag)
	}
	r, err := b.NewRangeReader(ctx, b.prefix+e.Name, offset, -1, o)
	if err != nil {
		return nil, b.failure(err)
	}
	tag, sum := b.client.opened(r)
	if tag != "" && e.Tag != "" && strings.Trim(tag, `"`) != strings.Trim(e.Tag, `"`) { // not every server keeps to conditions
		_ = r.Close()
		return nil, fetch.Failf(fetch.Changed, "it was replaced after it was listed")
	}
	return &body{r, b, sum}, nil
}

// Put writes the files of a request, in place of objects that have their names. Failures: Denied, Unavailable, Internal (the files).
func (b *bucket) Put(ctx context.Context, r *fetch.Request, fetched func(fetch.Fetched) error) (string, error) {
	for _, e := range r.Files {
		if err := b.putFile(ctx, filepath.Join(r.Folder, filepath.FromSlash(e.Name)), e.Name); err != nil {
			return "", err
		}
		if err := fetched(fetch.Fetched{Name: e.Name, Key: e.Key(), SHA256: e.SHA256, Size: e.Size, Received: e.Size}); err != nil {
			return "", err
		}
	}
	return "", nil
}

func (b *bucket) putFile(ctx context.Context, path, name string) error {
	f, err := os.Open(path)
	if err != nil {
		return fetch.Failf(fetch.Internal, "file %.100q cannot be read", name)
	}
	defer func() { _ = f.Close() }()
	if err := b.Upload(ctx, b.prefix+name, f, &blob.WriterOptions{ContentType: "application/octet-stream"}); err != nil {
		return b.failure(err)
	}
	return nil
}

// body is the content of an object.
type body struct {
	*blob.Reader
	bucket *bucket
	sum    place.Sum
}

// Sum implements place.Summed.
func (b *body) Sum() place.Sum { return b.sum }

func (b *body) Read(data []byte) (int, error) {
	n, err := b.Reader.Read(data)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.bucket.failure(err)
	}
	return n, err
}
