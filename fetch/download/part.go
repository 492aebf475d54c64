package download

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"hash/crc32"
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

// part is the beginning of a file that is being fetched. Lanes compute its digests beside what receives and writes it.
type part struct {
	file   *os.File
	entry  fetch.Entry
	size   int64 // bytes that are written, and that the lanes were given
	lanes  lanes
	sha256 hash.Hash
	crc32c hash.Hash32 // nil: the store's list has none
	md5    hash.Hash   // nil: nothing is to be compared with it
	sum    place.Sum   // of the last answer
	behind *behind
}

// openPart opens the part of a file, which an earlier run may have begun.
func openPart(path string, e fetch.Entry) (*part, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, onDisk(err)
	}
	p := &part{file: f, entry: e, lanes: lanes{pool: newPool()}, sha256: sha256.New()}
	if e.CRC32C != "" {
		p.crc32c = crc32.New(crc32.MakeTable(crc32.Castagnoli))
	}
	p.lanes.add(func(data []byte) {
		_, _ = p.sha256.Write(data)
		if p.crc32c != nil {
			_, _ = p.crc32c.Write(data)
		}
	})
	if p.size, err = p.lanes.read(f); err == nil && p.size > e.Size {
		err = p.restart()
	}
	if err != nil {
		p.close()
		return nil, onDisk(err)
	}
	p.behind = startBehind(int(f.Fd()), p.size)
	return p, nil
}

func (p *part) close() {
	p.lanes.end()
	if p.behind != nil {
		p.behind.end()
	}
	_ = p.file.Close()
}

// restart forgets what is there.
func (p *part) restart() error {
	p.sha256.Reset()
	if p.crc32c != nil {
		p.crc32c.Reset()
	}
	p.size = 0
	return p.file.Truncate(0)
}

func onDiskOr(err error) error {
	if err == nil {
		return nil
	}
	return onDisk(err)
}

// wantMD5 starts to compute the MD5, of what is there already as well. It does nothing where the store's list has none, or
// a CRC32C, which costs next to nothing: the MD5 is the slowest of all digests, and no two cores can share one.
func (p *part) wantMD5() error {
	if p.md5 != nil || p.entry.MD5 == "" || p.entry.CRC32C != "" {
		return nil
	}
	p.lanes.drain()
	sum := md5.New()
	if _, err := io.Copy(sum, io.NewSectionReader(p.file, 0, p.size)); err != nil {
		return onDisk(err)
	}
	p.md5 = sum
	p.lanes.add(func(data []byte) { _, _ = sum.Write(data) })
	return nil
}

// append writes what stands in a buffer, and gives it to the lanes.
func (p *part) append(data []byte) error {
	n, err := p.file.WriteAt(data, p.size)
	p.size += int64(n)
	p.lanes.send(data[:n])
	p.behind.written(p.size)
	return onDiskOr(err)
}

// fetch brings one file, and returns its digest and how many bytes the network brought.
func (j *job) fetch(ctx context.Context, g *group) (digest string, received int64, err error) {
	path := filepath.Join(j.folder, "parts", g.key)
	p, err := openPart(path, g.entries[0])
	if err != nil {
		return "", 0, err
	}
	defer p.close()
	j.had.Add(p.size)
	received, err = j.fill(ctx, p)
	if err == nil {
		digest, err = hexOf(p.sha256), p.verify()
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
func (j *job) fill(ctx context.Context, p *part) (received int64, err error) {
	for try := 0; p.size < p.entry.Size; try++ {
		before := p.size
		err = j.receive(ctx, p)
		p.lanes.drain()
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

// receive gives one answer of the store to the lanes of a part.
func (j *job) receive(ctx context.Context, p *part) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	in, err := j.place.Open(ctx, p.entry, p.size)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	sum := place.SumListed
	if body, ok := in.(place.Summed); ok {
		sum = body.Sum()
	}
	if p.sum = sum; sum == place.SumListed {
		if err := p.wantMD5(); err != nil {
			return err
		}
	}
	watch := time.AfterFunc(stallTimeout, func() { stop(errStalled) })
	defer watch.Stop()
	from := &watched{in, func(n int) { watch.Reset(stallTimeout); j.received.Add(int64(n)) }}
	for err == nil {
		buffer := p.lanes.pool.buffer()
		var n int
		n, err = fillBuffer(from, buffer[:min(bufferBytes, p.entry.Size-p.size+1)]) // one more finds what is too long
		if p.size+int64(n) > p.entry.Size {
			p.lanes.pool.release(buffer)
			return fetch.Failf(fetch.Corrupt, "it has more than the %d bytes that the store says", p.entry.Size)
		}
		if err := p.append(buffer[:n]); err != nil {
			return err
		}
	}
	return p.ended(err, errors.Is(context.Cause(ctx), errStalled))
}

// watched tells of each read.
type watched struct {
	io.Reader
	tell func(n int)
}

func (w *watched) Read(data []byte) (int, error) {
	n, err := w.Reader.Read(data)
	w.tell(n)
	return n, err
}

// fillBuffer reads until a buffer is full. Unlike those of io.ReadFull its errors are those of the reader.
func fillBuffer(from io.Reader, buffer []byte) (n int, err error) {
	for n < len(buffer) && err == nil {
		var m int
		m, err = from.Read(buffer[n:])
		n += m
	}
	return n, err
}

// ended says what the error means that an answer ended with.
func (p *part) ended(err error, stalled bool) error {
	size := p.entry.Size
	switch {
	case errors.Is(err, io.EOF) && p.size < size:
		return fetch.Failf(fetch.Unavailable, "the answer ended after %d of %d bytes", p.size, size)
	case errors.Is(err, io.EOF):
		return nil
	case stalled:
		return fetch.Failf(fetch.Unavailable, "the answer stood still for %v after %d of %d bytes", stallTimeout, p.size, size)
	case p.sum == place.SumVerified && p.size == size:
		return fetch.Failf(fetch.Corrupt, "the bytes do not have the checksum that the store sends with them: %v", err)
	}
	return err
}

// verify compares the digests of a whole part with those of its entry. A part that an earlier run has made whole has had no
// answer that says anything about them.
func (p *part) verify() error {
	if got := hexOf(p.sha256); p.entry.SHA256 != "" && p.entry.SHA256 != got {
		return fetch.Failf(fetch.Corrupt, "the bytes have the SHA-256 %s, want %s", got, p.entry.SHA256)
	}
	if p.crc32c != nil && p.entry.CRC32C != hexOf(p.crc32c) {
		return fetch.Failf(fetch.Corrupt, "the bytes have the CRC32C %s, want %s", hexOf(p.crc32c), p.entry.CRC32C)
	}
	if p.sum != place.SumListed {
		return nil
	}
	if err := p.wantMD5(); err != nil {
		return err
	}
	if p.md5 != nil && p.entry.MD5 != hexOf(p.md5) {
		return fetch.Failf(fetch.Corrupt, "the bytes have the MD5 %s, want %s", hexOf(p.md5), p.entry.MD5)
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
