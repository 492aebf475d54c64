package inference

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
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

const (
	encodings = "gzip, deflate" // of bodies, for clients that asked for another
	// encodedMargin is what an encoded answer may take beside a thousandth of its length more than the plain one: data
	// that does not shrink is stored as it is, in blocks with a head each.
	encodedMargin = 256
)

// expand replaces an encoded body of an inference by what it stands for: Content-Encoding gzip, or deflate, which is a
// zlib stream. Lengths that the protocol's headers and parameters give are those of the expanded body. Errors:
// Unsupported, Invalid, Busy; TooLarge over http.max_json_bytes, however small the body was that was sent.
func (h *Handlers) expand(r *httpapi.Request, in *incoming) error {
	encoding := httpapi.Field(&r.Request().Header, fiber.HeaderContentEncoding)
	if len(encoding) == 0 || bytes.EqualFold(encoding, []byte("identity")) {
		return nil
	}
	var plain io.ReadCloser
	var err error
	switch {
	case bytes.EqualFold(encoding, []byte("gzip")):
		plain, err = gzip.NewReader(bytes.NewReader(in.body))
	case bytes.EqualFold(encoding, []byte("deflate")):
		plain, err = zlib.NewReader(bytes.NewReader(in.body))
	default:
		r.Set(fiber.HeaderAcceptEncoding, encodings)
		return edgewise.Errorf("inference.expand", edgewise.Unsupported, "Unsupported compression type: content "+
			"encoding %.40q, want gzip or deflate", bytes.Clone(encoding))
	}
	if err != nil {
		return notEncoded(encoding, err)
	}
	start := httpapi.BodyStart(httpapi.Field(&r.Request().Header, kserve.HeaderLength))
	limit := min(h.Config().MaxJSONBytes, h.Config().MaxInferBytes)
	b, size, err := h.Memory().Expand(plain, int64(len(in.body)), start, limit)
	switch {
	case errors.Is(err, blocks.ErrFull):
		return h.NoMemory()
	case errors.Is(err, blocks.ErrTooLong):
		return &edgewise.Error{
			Op: "inference.expand", Kind: edgewise.TooLarge, Limit: limit,
			Err: errors.New("Decompressed data size exceeds the maximum allowed value of " + strconv.FormatInt(limit, 10) +
				" bytes. Use --http-max-input-size to increase the limit."),
		}
	case err != nil:
		return notEncoded(encoding, err)
	}
	in.expanded, in.body = b, b.Bytes[start:start+size]
	return nil
}

func notEncoded(encoding []byte, err error) error {
	return edgewise.Errorf("inference.expand", edgewise.Invalid, "the body is not what its content encoding %.40q says: %w",
		bytes.Clone(encoding), err)
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
	return kept, func() {
		kept.Reset(io.Discard) // w may hold a large answer
		pool.Put(kept)
	}
}

// Encode compresses the answer of an inference where the client asks for that. The answer stays as it is when there is
// no memory for the compressed one.
func (h *Handlers) Encode(r *httpapi.Request) {
	accept := httpapi.Field(&r.Request().Header, fiber.HeaderAcceptEncoding)
	if len(accept) == 0 {
		return
	}
	r.Set(fiber.HeaderVary, fiber.HeaderAcceptEncoding)
	encoding := acceptable(string(accept))
	if encoding == "identity" {
		return
	}
	plain := r.Response().Body()
	b := h.Memory().Take(int64(len(plain) + len(plain)/1000 + encodedMargin))
	if b == nil {
		return
	}
	out := &fixed{room: b.Bytes}
	enc, put := h.encoders.get(encoding, out)
	_, err := enc.Write(plain)
	err = errors.Join(err, enc.Close())
	put()
	if err != nil {
		b.Free()
		return
	}
	r.Set(fiber.HeaderContentEncoding, encoding)
	r.Response().SetBodyRaw(out.room[:out.used])
	r.Keep(b) // which ends the use of the plain one
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
