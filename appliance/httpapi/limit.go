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
		return limit{"an inference request (http.max_body_bytes)", c.MaxInferBytes, maxChunks}
	case loadBody:
		return limit{"a load with files (http.max_body_bytes)", c.MaxInferBytes, maxChunks}
	case stepBody:
		return limit{"a request with a compiled step", maxStepBytes, maxChunks}
	case versionBody, uploadBody:
		return limit{"an upload (upload.max_bytes)", c.MaxUploadBytes, 0}
	case updateBody:
		return limit{"an update of the system", MaxUpdateBytes, 0}
	}
	return limit{"this request", c.MaxBodyBytes, maxChunks}
}

// limit bounds the body of a request.
type limit struct {
	what   string // what is bounded, for messages
	bytes  int64
	chunks int // of a chunked body; 0: any number
}

func (l limit) exceeded() error {
	e := edgewise.Errorf("httpapi.admit", edgewise.TooLarge, "the body of %s may have at most %d bytes", l.what, l.bytes)
	e.Limit = l.bytes
	return e
}

func (l limit) choppy() error {
	return &edgewise.Error{Op: "httpapi.stream.Read", Kind: edgewise.Invalid, Limit: int64(l.chunks), Err: fmt.Errorf("the body has more than %d chunks", l.chunks)}
}
