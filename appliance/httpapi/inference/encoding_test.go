package inference

import (
	"runtime"
	"testing"
	"weak"
)

// TestAnIdleEncoderHoldsNoAnswer looks after one collection: what a pool holds survives that.
func TestAnIdleEncoderHoldsNoAnswer(t *testing.T) {
	for _, encoding := range []string{"gzip", "deflate"} {
		var e encoders
		out := &fixed{room: make([]byte, 1<<20)}
		enc, put := e.get(encoding, out)
		if _, err := enc.Write(make([]byte, 1<<10)); err != nil {
			t.Fatal(err)
		}
		if err := enc.Close(); err != nil {
			t.Fatal(err)
		}
		held := weak.Make(out)
		put()
		out, enc, put = nil, nil, nil
		runtime.GC()
		if held.Value() != nil {
			t.Errorf("%s: the answer is still held", encoding)
		}
		runtime.KeepAlive(&e)
	}
}
