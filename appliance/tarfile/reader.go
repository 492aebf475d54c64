// Package tarfile reads tar archives and refuses those that were cut off. archive/tar takes the end of its input for
// the end of the archive, so an archive that was cut off behind a file looks complete to it.
package tarfile

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// block is the size of a header, of the unit that files are padded to, and of the mark at the end of an archive, in
// bytes.
const block = 512

// Reader is a tar.Reader whose Next returns io.EOF only behind a mark of the end.
type Reader struct {
	*tar.Reader
	in   *counter
	name string // of the current entry; empty before the first
}

// NewReader returns a reader of the archive in r. It reads no further than the mark of the end.
func NewReader(r io.Reader) *Reader {
	in := &counter{in: r}
	return &Reader{Reader: tar.NewReader(in), in: in}
}

// Next skips what is left of the current entry and returns the next one, io.EOF behind the last one, and an error that
// names the last entry where the input ends without the block of zeros that marks the end of an archive.
func (r *Reader) Next() (*tar.Header, error) {
	if r.name != "" {
		if _, err := io.Copy(io.Discard, r.Reader); err != nil {
			return nil, err
		}
	}
	r.in.watch((r.in.n + block - 1) / block * block)
	entry, err := r.Reader.Next()
	switch {
	case err == nil:
		r.name = entry.Name
	case errors.Is(err, io.EOF) && !r.in.marked() && r.name == "":
		return nil, errors.New("the archive is cut off: it has no entry and no mark of its end")
	case errors.Is(err, io.EOF) && !r.in.marked():
		return nil, fmt.Errorf("the archive is cut off: the mark of its end is missing behind entry %.200q", r.name)
	}
	return entry, err
}

// counter counts the bytes that were read, and tells whether those from an offset on are the mark of the end.
type counter struct {
	in    io.Reader
	n     int64
	from  int64 // where the mark would begin
	other bool  // something else than zeros was read from there on
}

// watch looks for the mark of the end from an offset on that has not been read.
func (c *counter) watch(from int64) { c.from, c.other = from, false }

// marked tells whether the mark was read.
func (c *counter) marked() bool { return c.n >= c.from+block && !c.other }

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	if skip := max(c.from-c.n, 0); skip < int64(n) && !c.other {
		c.other = len(bytes.Trim(p[skip:n], "\x00")) > 0
	}
	c.n += int64(n)
	return n, err
}
