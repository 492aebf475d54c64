package download

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise/api/fetch"
	"github.com/edgewise-ai/edgewise/fetch/place"
)

// Digest returns the digest of a file that is in the folder of get; "" when it is not.
func Digest(folder string, e fetch.Entry) string {
	data, err := os.ReadFile(filepath.Join(folder, "keys", e.Key()))
	digest := string(data)
	if err != nil || len(digest) != 2*sha256.Size || strings.Trim(digest, "0123456789abcdef") != "" {
		return ""
	}
	if info, err := os.Lstat(filepath.Join(folder, "files", digest)); err != nil || !info.Mode().IsRegular() || info.Size() != e.Size {
		return ""
	}
	return digest
}

// part is the beginning of a file that is being fetched, with the digests of what is there.
type part struct {
	*os.File
	size        int64
	sha256, md5 hash.Hash // md5 is nil when nobody knows what it is to be
	unsummed    bool      // the MD5 of the entry is not that of the bytes
}

// openPart opens the part of a file, which an earlier run may have begun.
func openPart(path string, e fetch.Entry) (*part, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, onDisk(err)
	}
	p := &part{File: f, sha256: sha256.New()}
	if e.MD5 != "" {
		p.md5 = md5.New()
	}
	p.size, err = io.Copy(hashes{p}, f)
	if err != nil {
		_ = f.Close()
		return nil, onDisk(err)
	}
	return p, nil
}

// hashes adds bytes to the digests of a part.
type hashes struct{ of *part }

func (h hashes) Write(data []byte) (int, error) {
	_, _ = h.of.sha256.Write(data)
	if h.of.md5 != nil {
		_, _ = h.of.md5.Write(data)
	}
	return len(data), nil
}

// restart forgets what is there.
func (p *part) restart() error {
	p.sha256.Reset()
	if p.md5 != nil {
		p.md5.Reset()
	}
	p.size = 0
	_, err := p.Seek(0, io.SeekStart)
	return onDiskOr(errors.Join(err, p.Truncate(0)))
}

func onDiskOr(err error) error {
	if err == nil {
		return nil
	}
	return onDisk(err)
}

// Write appends to the part.
func (p *part) Write(data []byte) (int, error) {
	n, err := p.File.Write(data)
	p.size += int64(n)
	_, _ = hashes{p}.Write(data[:n])
	return n, onDiskOr(err)
}

// fetch brings one file, and returns its digest and how many bytes the network brought.
func (j *job) fetch(ctx context.Context, g *group) (digest string, received int64, err error) {
	path := filepath.Join(j.folder, "parts", g.key)
	p, err := openPart(path, g.entries[0])
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = p.Close() }()
	e := g.entries[0]
	if p.size > e.Size {
		err = p.restart()
	}
	if err == nil {
		received, err = j.fill(ctx, p, e)
	}
	if err == nil {
		digest, err = hexOf(p.sha256), p.verify(e)
	}
	if err == nil {
		err = onDiskOr(j.finish(path, g.key, digest))
	}
	if err != nil && useless(failure(err).Kind) {
		_ = os.Remove(path)
	}
	return digest, received, err
}

// useless tells whether a part is of no use after a failure of a kind.
func useless(kind string) bool {
	return kind == fetch.Changed || kind == fetch.Corrupt || kind == fetch.NotFound || kind == fetch.Exhausted
}

// fill receives what is missing of a file. An answer that ends early is continued, as long as it brings anything.
func (j *job) fill(ctx context.Context, p *part, e fetch.Entry) (received int64, err error) {
	for try := 0; p.size < e.Size; try++ {
		before := p.size
		err = j.receive(ctx, p, e)
		received += p.size - before
		if p.size > before {
			try = 0
		}
		if err != nil && failure(err).Kind != fetch.Unavailable || try == attempts-1 {
			return received, err
		}
		if err == nil {
			continue
		}
		select {
		case <-time.After(firstBackOff << try):
		case <-ctx.Done():
			return received, ctx.Err()
		}
	}
	return received, nil
}

// stallTimeout is how long an answer may stand still.
const stallTimeout = 30 * time.Second

var errStalled = errors.New("it stands still")

// receive appends one answer of the store to a part.
func (j *job) receive(ctx context.Context, p *part, e fetch.Entry) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	in, err := j.place.Open(ctx, e, p.size)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	if body, ok := in.(place.Unsummed); ok {
		p.unsummed = body.Unsummed()
	}
	watch := time.AfterFunc(stallTimeout, func() { stop(errStalled) })
	defer watch.Stop()
	buffer := make([]byte, 256<<10)
	for {
		n, err := in.Read(buffer)
		watch.Reset(stallTimeout)
		if p.size+int64(n) > e.Size {
			return fetch.Failf(fetch.Corrupt, "it has more than the %d bytes that the store says", e.Size)
		}
		if _, err := p.Write(buffer[:n]); err != nil {
			return err
		}
		j.progress(n)
		switch {
		case errors.Is(err, io.EOF) && p.size < e.Size:
			return fetch.Failf(fetch.Unavailable, "the answer ended after %d of %d bytes", p.size, e.Size)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && errors.Is(context.Cause(ctx), errStalled):
			return fetch.Failf(fetch.Unavailable, "the answer stood still for %v after %d of %d bytes", stallTimeout, p.size, e.Size)
		case err != nil:
			return err
		}
	}
}

// verify compares the digests of a whole part with those of its entry.
func (p *part) verify(e fetch.Entry) error {
	if got := hexOf(p.sha256); e.SHA256 != "" && e.SHA256 != got {
		return fetch.Failf(fetch.Corrupt, "the bytes have the SHA-256 %s, want %s", got, e.SHA256)
	}
	if p.md5 != nil && !p.unsummed && e.MD5 != hexOf(p.md5) {
		return fetch.Failf(fetch.Corrupt, "the bytes have the MD5 %s, want %s", hexOf(p.md5), e.MD5)
	}
	return nil
}

func hexOf(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// finish makes a file of a part that is whole. The key comes first: without its file it says nothing, and the part is
// still there.
func (j *job) finish(path, key, digest string) error {
	named := filepath.Join(j.folder, "keys", key)
	err := os.WriteFile(named+".new", []byte(digest), 0o600)
	if err == nil {
		err = os.Rename(named+".new", named)
	}
	if err == nil {
		err = os.Rename(path, filepath.Join(j.folder, "files", digest))
	}
	return err
}
