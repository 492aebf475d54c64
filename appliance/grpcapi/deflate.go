package grpcapi

import (
	"compress/zlib"
	"io"
	"sync"

	"google.golang.org/grpc/encoding"
)

// registerDeflate makes the library know the compression "deflate", which is a zlib stream, as it knows gzip. It has to
// happen before the first server or client of the process; later calls do nothing.
var registerDeflate = sync.OnceFunc(func() { encoding.RegisterCompressor(deflate{}) })

// deflate compresses messages. What a message becomes is bounded by the library, at grpc.max_message_bytes.
type deflate struct{}

// Name returns the name in the header grpc-encoding.
func (deflate) Name() string { return "deflate" }

// Compress returns a writer that compresses into w.
func (deflate) Compress(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(w), nil }

// Decompress returns a reader of what was compressed into r.
func (deflate) Decompress(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) }
