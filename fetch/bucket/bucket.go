// Package bucket reads trees of files in object stores, through gocloud.dev.
package bucket

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
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
	// tag is the store's mark of the state of an object.
	tag(o *blob.ListObject) string
	// only makes a read fail unless the object still has a tag.
	only(tag string) func(as func(any) bool) error
	// unsummed tells whether the MD5 that the store lists is not that of the bytes that are read.
	unsummed(r *blob.Reader) bool
	// explain returns the kind of an error of the store and what it says; "" for both when it is none of those.
	explain(err error) (kind, message string)
}

var _ place.Place = (*bucket)(nil)

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
			e := fetch.Entry{Name: name, Size: o.Size, Tag: b.client.tag(o), Changed: o.ModTime.UnixNano()}
			if len(o.MD5) == 16 {
				e.MD5 = hex.EncodeToString(o.MD5)
			}
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
	return &body{r, b}, nil
}

// body is the content of an object.
type body struct {
	*blob.Reader
	bucket *bucket
}

// Unsummed implements place.Unsummed.
func (b *body) Unsummed() bool { return b.bucket.client.unsummed(b.Reader) }

func (b *body) Read(data []byte) (int, error) {
	n, err := b.Reader.Read(data)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.bucket.failure(err)
	}
	return n, err
}
