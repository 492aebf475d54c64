package administration

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash"
	"io"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// checked is a body that ends well only if its SHA-256 is the one announced.
type checked struct {
	reader io.Reader
	hash   hash.Hash
	want   []byte // nil: nothing was announced
}

// newChecked reads the announcement from a Content-Digest header (RFC 9530), which may be empty. Errors: Invalid,
// Unsupported for a header without sha-256.
func newChecked(reader io.Reader, header string) (*checked, error) {
	const op = "administration.newChecked"
	c := &checked{reader: reader, hash: sha256.New()}
	if header == "" {
		return c, nil
	}
	for item := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(item), "=")
		if name != "sha-256" {
			continue
		}
		text, opened := strings.CutPrefix(value, ":")
		text, closed := strings.CutSuffix(text, ":")
		sum, err := base64.StdEncoding.DecodeString(text)
		if !opened || !closed || err != nil || len(sum) != sha256.Size {
			return nil, edgewise.Errorf(op, edgewise.Invalid, "Content-Digest %.120q: want sha-256=:<base64 of %d bytes>:",
				header, sha256.Size)
		}
		c.want = sum
		return c, nil
	}
	return nil, edgewise.Errorf(op, edgewise.Unsupported, "Content-Digest %.120q: want a sha-256 digest", header)
}

// Read reads the body. At its end it returns io.EOF if the digest is right or was not announced, and Invalid otherwise.
func (c *checked) Read(p []byte) (int, error) {
	n, err := c.reader.Read(p)
	if c.want != nil {
		c.hash.Write(p[:n])
	}
	if errors.Is(err, io.EOF) && c.want != nil && !bytes.Equal(c.hash.Sum(nil), c.want) {
		return n, edgewise.Errorf("administration.checked.Read", edgewise.Invalid,
			"the body's SHA-256 is %x, the Content-Digest header announced %x", c.hash.Sum(nil), c.want)
	}
	return n, err
}

// finish reads what is left, which must be padding, to the end, so that the digest is judged.
func (c *checked) finish() error {
	rest := make([]byte, 4<<10)
	for {
		n, err := c.Read(rest)
		if len(bytes.Trim(rest[:n], "\x00")) > 0 {
			return edgewise.Errorf("administration.checked.finish", edgewise.Invalid, "the body goes on after the end of its last file")
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
