package httpapi

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

// maxKnownHead is the longest head, in bytes, that a connection knows the end of.
const maxKnownHead = 4 << 10

// noLength is what the library says of a request with neither a Content-Length nor a Transfer-Encoding: it has no body.
const noLength = -2

// edges follows where the requests of a connection begin while their bytes go to the HTTP library, which does not say. It claims
// to know only what the library's own reading of a head confirms: one byte off, and the body of a request would be taken for the next one.
type edges struct {
	begins bool   // nothing of the next request has been read
	head   []byte // of the request in progress: request line and headers with the empty line behind them; empty: not known
	whole  bool   // head is complete, or given up
	given  int    // bytes that the library got since that request began
}

// pass notes bytes that go to the library.
func (e *edges) pass(p []byte) {
	if e.begins {
		*e = edges{head: e.head[:0]}
	}
	e.given += len(p)
	if e.whole {
		return
	}
	e.head = append(e.head, p[:min(len(p), maxKnownHead+1-len(e.head))]...)
	if end := bytes.Index(e.head, []byte("\r\n\r\n")); end >= 0 {
		e.head, e.whole = e.head[:end+len("\r\n\r\n")], true
	} else if len(e.head) > maxKnownHead {
		e.head, e.whole = e.head[:0], true
	}
}

// end notes that a request has been answered and its body read to the end.
func (e *edges) end(header *fasthttp.RequestHeader) {
	body := header.ContentLength()
	switch {
	case body == noLength:
		body = 0
	case !header.IsPost(): // the library reads no body of a GET, whatever its length says
		body = -1
	}
	e.begins = body >= 0 && e.given == len(e.head)+body && e.confirmed(header)
}

// confirmed tells whether head is what the library has read as header.
func (e *edges) confirmed(header *fasthttp.RequestHeader) bool {
	rest := e.head
	for _, part := range [...][]byte{header.Method(), {' '}, header.RequestURI(), {' '}, header.Protocol(), []byte("\r\n")} {
		var ok bool
		if rest, ok = bytes.CutPrefix(rest, part); !ok {
			return false
		}
	}
	return e.whole && bytes.Equal(rest, header.RawHeaders())
}
