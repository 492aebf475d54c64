package httpapi

import (
	"fmt"

	"github.com/edgewise-ai/edgewise"
)

// bodyKind says what the body of a route carries, which bounds it.
type bodyKind int

const (
	smallBody   bodyKind = iota // JSON with a few members
	tensorBody                  // tensors
	loadBody                    // a model's files in base64
	stepBody                    // a compiled step in base64
	versionBody                 // files of a version
	uploadBody                  // a piece of an upload
	updateBody                  // an update of the system
)

// limitOf returns the bound of a body.
func (c *Config) limitOf(kind bodyKind) limit {
	switch kind {
	case tensorBody:
		return limit{what: "an inference request (http.max_body_bytes)", bytes: c.MaxInferBytes, chunks: maxChunks}
	case loadBody:
		return limit{what: "a load with files (http.max_body_bytes)", bytes: c.MaxInferBytes, chunks: maxChunks, json: true}
	case stepBody:
		return limit{what: "a request with a compiled step", bytes: maxStepBytes, chunks: maxChunks, json: true}
	case versionBody, uploadBody:
		return limit{what: "an upload (upload.max_bytes)", bytes: c.MaxUploadBytes}
	case updateBody:
		return limit{what: "an update of the system", bytes: MaxUpdateBytes}
	}
	return limit{what: "this request", bytes: c.MaxBodyBytes, chunks: maxChunks, json: true}
}

// limit bounds the body of a request.
type limit struct {
	what   string // what is bounded, for messages
	bytes  int64
	chunks int  // of a chunked body; 0: any number
	json   bool // the body is JSON
}

func (l limit) exceeded() error {
	said := ""
	if l.json { // Triton's words
		said = "request JSON size exceeds the maximum allowed input size: "
	}
	e := edgewise.Errorf("httpapi.admit", edgewise.TooLarge, "%sthe body of %s may have at most %d bytes", said, l.what,
		l.bytes)
	e.Limit = l.bytes
	return e
}

func (l limit) choppy() error {
	return &edgewise.Error{
		Op: "httpapi.stream.Read", Kind: edgewise.Invalid, Limit: int64(l.chunks),
		Err: fmt.Errorf("Chunked request body exceeds maximum of %d non-empty chunks. Send fewer or larger HTTP chunks.",
			l.chunks),
	}
}
