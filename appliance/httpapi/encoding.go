package httpapi

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
)

const (
	encodings = "gzip, deflate" // of bodies, for clients that asked for another
	// encodedMargin is what an encoded answer may take beside a thousandth of its length more than the plain one: data
	// that does not shrink is stored as it is, in blocks with a head each.
	encodedMargin = 256
)

// expand replaces an encoded body of an inference by what it stands for: Content-Encoding gzip, or deflate, which is a
// zlib stream. Lengths that the protocol's headers and parameters give are those of the expanded body. The block, nil
// when the body is not encoded, holds the new body and is the caller's. Errors: Unsupported, Invalid, Busy; TooLarge
// over http.max_json_bytes, however small the body was that was sent.
func (s *Server) expand(c *fiber.Ctx) (*blocks.Block, error) {
	encoding := c.Request().Header.Peek(fiber.HeaderContentEncoding)
	if len(encoding) == 0 || equalFold(encoding, "identity") {
		return nil, nil
	}
	body := c.Request().Body()
	var plain io.ReadCloser
	var err error
	switch {
	case equalFold(encoding, "gzip"):
		plain, err = gzip.NewReader(bytes.NewReader(body))
	case equalFold(encoding, "deflate"):
		plain, err = zlib.NewReader(bytes.NewReader(body))
	default:
		c.Set(fiber.HeaderAcceptEncoding, encodings)
		return nil, edgewise.Errorf("httpapi.expand", edgewise.Unsupported, "Unsupported compression type: content "+
			"encoding %.40q, want gzip or deflate", bytes.Clone(encoding))
	}
	if err != nil {
		return nil, notEncoded(encoding, err)
	}
	start := bodyStart(c.Request().Header.Peek(kserve.HeaderLength))
	limit := min(s.cfg.MaxJSONBytes, s.cfg.MaxInferBytes)
	b, size, err := s.memory.Expand(plain, int64(len(body)), start, limit)
	switch {
	case errors.Is(err, blocks.ErrFull):
		return nil, s.noMemory()
	case errors.Is(err, blocks.ErrTooLong):
		return nil, &edgewise.Error{
			Op: "httpapi.expand", Kind: edgewise.TooLarge, Limit: limit,
			Err: errors.New("Decompressed data size exceeds the maximum allowed value of " + strconv.FormatInt(limit, 10) +
				" bytes. Use --http-max-input-size to increase the limit."),
		}
	case err != nil:
		return nil, notEncoded(encoding, err)
	}
	c.Request().SetBodyRaw(b.Bytes[start : start+size])
	return b, nil
}

func notEncoded(encoding []byte, err error) error {
	return edgewise.Errorf("httpapi.expand", edgewise.Invalid, "the body is not what its content encoding %.40q says: %w",
		bytes.Clone(encoding), err)
}

// noEncoding refuses a body whose bytes are not what they stand for, on routes that take none such. Errors:
// Unsupported.
func noEncoding(c *fiber.Ctx) error {
	encoding := c.Request().Header.Peek(fiber.HeaderContentEncoding)
	if len(encoding) == 0 || equalFold(encoding, "identity") {
		return nil
	}
	c.Set(fiber.HeaderAcceptEncoding, "identity")
	return edgewise.Errorf("httpapi.noEncoding", edgewise.Unsupported, "content encoding %.40q is not supported here: "+
		"send the body as it is", bytes.Clone(encoding))
}

// encoders keeps encoders for reuse: each takes hundreds of kilobytes.
type encoders struct {
	gzip, zlib sync.Pool // of *gzip.Writer, *zlib.Writer
}

// encoder compresses what is written, and what it has of it on Close.
type encoder interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// get returns an encoder that writes to w, and how to give it back.
func (e *encoders) get(encoding string, w io.Writer) (enc encoder, put func()) {
	pool := &e.gzip
	if encoding == "deflate" {
		pool = &e.zlib
	}
	kept, _ := pool.Get().(encoder)
	if kept == nil {
		// The level is in range, so neither returns an error.
		if encoding == "deflate" {
			kept, _ = zlib.NewWriterLevel(io.Discard, flate.BestSpeed)
		} else {
			kept, _ = gzip.NewWriterLevel(io.Discard, flate.BestSpeed)
		}
	}
	kept.Reset(w)
	return kept, func() { pool.Put(kept) }
}

// encode compresses the answer of an inference where the client asks for that. The answer stays as it is when there is
// no memory for the compressed one.
func (s *Server) encode(c *fiber.Ctx) {
	accept := c.Request().Header.Peek(fiber.HeaderAcceptEncoding)
	if len(accept) == 0 {
		return
	}
	c.Set(fiber.HeaderVary, fiber.HeaderAcceptEncoding)
	encoding := acceptable(string(accept))
	if encoding == "identity" {
		return
	}
	plain := c.Response().Body()
	b := s.memory.Take(int64(len(plain) + len(plain)/1000 + encodedMargin))
	if b == nil {
		return
	}
	out := &fixed{room: b.Bytes}
	enc, put := s.encoders.get(encoding, out)
	_, err := enc.Write(plain)
	err = errors.Join(err, enc.Close())
	put()
	if err != nil {
		b.Free()
		return
	}
	c.Set(fiber.HeaderContentEncoding, encoding)
	c.Response().SetBodyRaw(out.room[:out.used])
	connOf(c.Context()).keep(b) // which ends the use of the plain one
}

// fixed is a writer into memory that does not grow.
type fixed struct {
	room []byte
	used int
}

// Write appends p. Errors: io.ErrShortBuffer.
func (f *fixed) Write(p []byte) (int, error) {
	n := copy(f.room[f.used:], p)
	f.used += n
	if n < len(p) {
		return n, io.ErrShortBuffer
	}
	return n, nil
}

// acceptable returns which of gzip, deflate and identity the value of Accept-Encoding likes best: the highest weight,
// the first of several that are equal. Anything that cannot be read is left out, and so is a weight of 0.
func acceptable(value string) string {
	best, highest := "identity", 0.0
	for part := range strings.SplitSeq(value, ",") {
		name, parameters, weighted := strings.Cut(part, ";")
		name = strings.ToLower(strings.TrimSpace(name))
		if name != "gzip" && name != "deflate" && name != "identity" {
			continue
		}
		weight := 1.0
		if weighted {
			text, ok := strings.CutPrefix(strings.ToLower(strings.ReplaceAll(parameters, " ", "")), "q=")
			q, err := strconv.ParseFloat(text, 64)
			if !ok || err != nil || !(q >= 0 && q <= 1) {
				continue
			}
			weight = q
		}
		if weight > highest {
			best, highest = name, weight
		}
	}
	return best
}
