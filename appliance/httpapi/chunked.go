package httpapi

import (
	"errors"
	"fmt"
	"io"
	"math"
)

const (
	// rawLength stands for the length of a chunked body while the HTTP library handles it: it hands on the bytes as they
	// came, and this server reads the chunks itself. No client can send it, as it is over every bound.
	rawLength = math.MaxInt
	// maxChunkLine bounds the line before a chunk, in bytes: its size and its extensions, which are ignored.
	maxChunkLine = 256
	// maxChunkDigits bounds the digits of a chunk's size: more do not fit into an int64.
	maxChunkDigits = 15
)

// chunked reads a chunked body in the one form that RFC 9112 writes it in. Whatever another reader could take for
// something else is an error: a prefix of the size, a line that does not end in CR LF, a list of sizes, a trailer.
type chunked struct {
	raw   io.Reader
	left  int64 // bytes of the chunk that have not been read
	count int   // chunks that have begun, without the last one, which is empty
	ended bool
}

// Read reads the body; io.EOF is its true end.
func (c *chunked) Read(p []byte) (int, error) {
	if c.ended {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	if c.left == 0 {
		if err := c.begin(); err != nil {
			return 0, err
		}
		if c.ended {
			return 0, io.EOF
		}
	}
	n, err := c.raw.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// begin reads what stands between two chunks, and behind the last one.
func (c *chunked) begin() error {
	if c.count > 0 {
		if err := c.want("\r\n", "behind a chunk"); err != nil {
			return err
		}
	}
	size, err := c.size()
	if err != nil {
		return err
	}
	if c.left = size; size > 0 {
		c.count++
		return nil
	}
	c.ended = true
	return c.want("\r\n", "behind the last chunk, as trailers are not supported")
}

// size reads the line before a chunk.
func (c *chunked) size() (size int64, err error) {
	digits, extension := 0, false
	for range maxChunkLine {
		b, err := c.next()
		if err != nil {
			return 0, err
		}
		digit, ok := hexDigit(b)
		switch {
		case b == '\r' && digits > 0:
			return size, c.want("\n", "behind the size of a chunk")
		case extension && (b == '\t' || b >= ' ' && b != 0x7f):
		case ok && digits < maxChunkDigits:
			size, digits = size<<4|digit, digits+1
		case b == ';' && digits > 0:
			extension = true
		default:
			return 0, fmt.Errorf("chunk %d: %q in the line before it: want 1 to %d hexadecimal digits, and CR LF", c.count+1, b,
				maxChunkDigits)
		}
	}
	return 0, fmt.Errorf("chunk %d: the line before it has more than %d bytes", c.count+1, maxChunkLine)
}

func hexDigit(b byte) (int64, bool) {
	switch {
	case b >= '0' && b <= '9':
		return int64(b - '0'), true
	case b >= 'a' && b <= 'f':
		return int64(b-'a') + 10, true
	case b >= 'A' && b <= 'F':
		return int64(b-'A') + 10, true
	}
	return 0, false
}

// want reads bytes that must be there.
func (c *chunked) want(text, where string) error {
	for i := range len(text) {
		b, err := c.next()
		if err != nil {
			return err
		}
		if b != text[i] {
			return fmt.Errorf("chunk %d: %q: want CR LF %s", c.count+1, b, where)
		}
	}
	return nil
}

// next reads one byte. Errors: io.ErrUnexpectedEOF where there is none.
func (c *chunked) next() (byte, error) {
	var b [1]byte
	if _, err := io.ReadFull(c.raw, b[:]); errors.Is(err, io.EOF) {
		return 0, io.ErrUnexpectedEOF
	} else if err != nil {
		return 0, err
	}
	return b[0], nil
}
