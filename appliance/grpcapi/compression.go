package grpcapi

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
)

// The library expands a compressed message before a server can count it. So the compressors registered here hand the
// compressed bytes on behind a mark, and the codec of the server expands them into counted memory (decision 0049).

const (
	// mark begins compressed data, and the index of the compression follows. No message begins with a field of the
	// number 0. Data with a mark that a client has made is expanded within the same bounds.
	mark      = "\x00compressed"
	markBytes = len(mark) + 1

	peekBytes = 4 << 10 // of an expanded message, to find where its first tensor begins
)

// compression is a compression that clients may use.
type compression struct {
	name   string
	reader func(io.Reader) (io.ReadCloser, error)
	writer func(w io.Writer, level int) (resetWriter, error)
}

type resetWriter interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// compressions returns the compressions that clients may use. Deflate is a zlib stream.
func compressions() []compression {
	return []compression{
		{
			name:   "gzip",
			reader: func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) },
			writer: func(w io.Writer, level int) (resetWriter, error) { return gzip.NewWriterLevel(w, level) },
		},
		{
			name:   "deflate",
			reader: func(r io.Reader) (io.ReadCloser, error) { return zlib.NewReader(r) },
			writer: func(w io.Writer, level int) (resetWriter, error) { return zlib.NewWriterLevel(w, level) },
		},
	}
}

// registerCompressors makes the library know the compressions. It has to happen before the first server or client of
// the process; later calls do nothing. A client of the process reads compressed answers with a codec like that of the
// server.
var registerCompressors = sync.OnceFunc(func() {
	for i, c := range compressions() {
		k := &compressor{compression: c, index: byte(i)}
		k.level.Store(gzip.DefaultCompression)
		encoding.RegisterCompressor(k)
	}
})

// compressor is a compression as the library knows it.
type compressor struct {
	compression
	index   byte
	level   atomic.Int64
	writers sync.Pool // of *pooledWriter
}

// Name returns the name in the header grpc-encoding.
func (c *compressor) Name() string { return c.name }

// Compress returns a writer that compresses into w.
func (c *compressor) Compress(w io.Writer) (io.WriteCloser, error) {
	level := int(c.level.Load())
	if p, ok := c.writers.Get().(*pooledWriter); ok && p.level == level {
		p.Reset(w)
		return p, nil
	}
	z, err := c.writer(w, level)
	return &pooledWriter{z, level, &c.writers}, err
}

// pooledWriter goes back into its pool when it is closed.
type pooledWriter struct {
	resetWriter
	level int
	pool  *sync.Pool
}

// Close ends the compressed data. Nothing of it is left in the pool.
func (p *pooledWriter) Close() error {
	err := p.resetWriter.Close()
	p.Reset(io.Discard)
	p.pool.Put(p)
	return err
}

// Decompress returns a reader of the compressed data behind its mark.
func (c *compressor) Decompress(r io.Reader) (io.Reader, error) {
	return io.MultiReader(bytes.NewReader(append([]byte(mark), c.index)), r), nil
}

// compressionOf returns the compression of data that begins with a mark.
func compressionOf(data mem.BufferSlice) (c compression, ok bool) {
	var head [markBytes]byte
	r := data.Reader()
	defer func() { _ = r.Close() }()
	n, _ := io.ReadFull(r, head[:])
	all := compressions()
	index := int(head[len(mark)])
	if n < markBytes || string(head[:len(mark)]) != mark || index >= len(all) {
		return compression{}, false
	}
	return all[index], true
}

// open returns a reader of the expanded data behind a mark. The caller closes the data. Error: Invalid.
func (c compression) open(data *mem.Reader) (plain io.Reader, err error) {
	if _, err = data.Discard(markBytes); err == nil {
		plain, err = c.reader(data)
	}
	if err != nil {
		return nil, c.failure(err, 0)
	}
	return plain, nil
}

// expand expands data into a block of which message is the part in use. Errors: blocks.ErrFull; Exhausted when the
// message has more than limit bytes; Invalid.
func (c compression) expand(
	data mem.BufferSlice, memory *blocks.Memory, limit int64,
) (b *blocks.Block, message []byte, err error) {
	r := data.Reader()
	defer func() { _ = r.Close() }()
	plain, err := c.open(r)
	if err != nil {
		return nil, nil, err
	}
	buffered := bufio.NewReaderSize(plain, peekBytes)
	beginning, _ := buffered.Peek(peekBytes) // Read returns an error again
	_, tensor := firstTensor(beginning)
	start := -tensor & (blocks.Alignment - 1)
	b, size, err := memory.Expand(buffered, int64(data.Len()), start, limit)
	if err != nil {
		return nil, nil, c.failure(err, limit)
	}
	return b, b.Bytes[start : start+size : start+size], nil
}

// expandSmall expands data to at most limit bytes that are not counted. Errors: Exhausted, Invalid.
func (c compression) expandSmall(data mem.BufferSlice, limit int64) ([]byte, error) {
	r := data.Reader()
	defer func() { _ = r.Close() }()
	plain, err := c.open(r)
	if err != nil {
		return nil, err
	}
	message, err := io.ReadAll(io.LimitReader(plain, limit+1))
	if err == nil && int64(len(message)) > limit {
		err = blocks.ErrTooLong
	}
	if err != nil {
		return nil, c.failure(err, limit)
	}
	return message, nil
}

func (c compression) failure(err error, limit int64) error {
	const op = "grpcapi.compression"
	switch {
	case errors.Is(err, blocks.ErrFull):
		return err
	case errors.Is(err, blocks.ErrTooLong):
		return edgewise.Errorf(op, edgewise.Exhausted, "the message after decompression is larger than max (%d bytes)", limit)
	}
	return edgewise.Errorf(op, edgewise.Invalid, "the message is not what its compression %q says: %w", c.name, err)
}
