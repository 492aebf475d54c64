package httpapi

import (
	"errors"
	"fmt"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/frontend"
)

// Config bounds what clients may take from the box. The zero value of a field stands for its default, but for
// RequestTimeout, where it means no bound. Beside each stand the status of an answer to who exceeds it, and its key in
// the appliance's configuration.
type Config struct {
	MaxConnections   int           // open connections; 503; http.max_connections
	MaxHeaderBytes   int           // request line and headers together; 431; no key
	MaxInferBytes    int64         // body of an inference request; 413; http.max_body_bytes
	MaxJSONBytes     int64         // JSON part of an inference request; 413; http.max_json_bytes
	MaxBodyBytes     int64         // body of any other request but an upload; 413; no key
	MaxUploadBytes   int64         // body of an upload; 413; upload.max_bytes
	MaxUploadFiles   int           // files in an uploaded archive; 413; upload.max_files
	MaxInflightBytes int64         // bodies and answers of all requests together; 503; http.max_inflight_bytes
	HeaderTimeout    time.Duration // from the first byte of a request to the end of its headers; 408; http.header_timeout
	BodyTimeout      time.Duration // for each bodyProgress bytes of a body; 408; http.body_timeout
	WriteTimeout     time.Duration // for each writeStep bytes of an answer; the connection is closed; http.write_timeout
	IdleTimeout      time.Duration // between requests; the connection is closed; http.idle_timeout
	RequestTimeout   time.Duration // for an inference, from its whole body on; 504; engine.request_timeout

	// AllowedHosts are the host names, without port, under which clients may address the box beside localhost and any
	// IP address; "*" allows every name. A name that is not listed is refused, so that a hostile page cannot reach
	// the box by pointing its own name at it.
	AllowedHosts []string
	// Origins are those whose pages may call this server, with a key or none; "*" stands for all; http.cors_origins.
	Origins []string
	// ForwardHeaders matches the names of headers that become parameters of inference requests; http.forward_headers.
	ForwardHeaders string
	// Restricted are the APIs that need a header; 403; http.restricted_api.
	Restricted []frontend.Restriction
	// TrustedProxies are the addresses and networks whose frontend.ForwardedFor is believed; http.trusted_proxies.
	TrustedProxies []string
}

// Defaults of Config.
const (
	DefaultMaxConnections   = 1024
	DefaultMaxHeaderBytes   = 16 << 10
	DefaultMaxInferBytes    = 256 << 20
	DefaultMaxJSONBytes     = kserve.DefaultMaxJSON
	DefaultMaxBodyBytes     = 1 << 20
	DefaultMaxUploadBytes   = 32 << 30
	DefaultMaxUploadFiles   = 1024
	DefaultMaxInflightBytes = 1 << 30
	DefaultHeaderTimeout    = 10 * time.Second
	DefaultBodyTimeout      = time.Minute
	DefaultWriteTimeout     = time.Minute
	DefaultIdleTimeout      = 2 * time.Minute
)

// bodyProgress is how many bytes of a body must arrive within each BodyTimeout. A sender that drips single bytes is as
// stalled as one that sends none.
const bodyProgress = 16 << 10

const (
	// maxStepBytes bounds the body of a request that carries a compiled step, in base64, and its source.
	maxStepBytes = 40 << 20
	// maxUpdateBytes bounds an update of the system.
	maxUpdateBytes = 2 << 30
)

// largestInferBytes bounds MaxInferBytes.
const largestInferBytes = 16 << 30

// completed returns c with defaults filled in, or every reason why it cannot work.
func (c Config) completed() (Config, error) {
	problems := []error{
		frontend.Fill("http.max_connections", &c.MaxConnections, DefaultMaxConnections),
		frontend.Fill("MaxHeaderBytes", &c.MaxHeaderBytes, DefaultMaxHeaderBytes),
		frontend.Fill("http.max_body_bytes", &c.MaxInferBytes, DefaultMaxInferBytes),
		frontend.Fill("http.max_json_bytes", &c.MaxJSONBytes, DefaultMaxJSONBytes),
		frontend.Fill("MaxBodyBytes", &c.MaxBodyBytes, DefaultMaxBodyBytes),
		frontend.Fill("upload.max_bytes", &c.MaxUploadBytes, DefaultMaxUploadBytes),
		frontend.Fill("upload.max_files", &c.MaxUploadFiles, DefaultMaxUploadFiles),
		frontend.Fill("http.max_inflight_bytes", &c.MaxInflightBytes, DefaultMaxInflightBytes),
		frontend.Fill("http.header_timeout", &c.HeaderTimeout, DefaultHeaderTimeout),
		frontend.Fill("http.body_timeout", &c.BodyTimeout, DefaultBodyTimeout),
		frontend.Fill("http.write_timeout", &c.WriteTimeout, DefaultWriteTimeout),
		frontend.Fill("http.idle_timeout", &c.IdleTimeout, DefaultIdleTimeout),
		frontend.Fill("engine.request_timeout", &c.RequestTimeout, 0),
	}
	if c.MaxInferBytes > largestInferBytes {
		problems = append(problems, fmt.Errorf("http.max_body_bytes is %d: at most %d is possible", c.MaxInferBytes,
			int64(largestInferBytes)))
	}
	if largest := max(c.MaxInferBytes, c.MaxBodyBytes); largest > c.MaxInflightBytes {
		problems = append(problems, fmt.Errorf("http.max_inflight_bytes is %d: too little for one body of %d bytes",
			c.MaxInflightBytes, largest))
	}
	return c, errors.Join(problems...)
}

// BodyKind says what the body of a route carries, which bounds it.
type BodyKind int

// The kinds of bodies.
const (
	SmallBody   BodyKind = iota // JSON with a few members
	TensorBody                  // tensors
	LoadBody                    // a model's files in base64
	StepBody                    // a compiled step in base64
	VersionBody                 // files of a version
	UploadBody                  // a piece of an upload
	UpdateBody                  // an update of the system
)

// limitOf returns the bound of a body.
func (c *Config) limitOf(kind BodyKind) limit {
	switch kind {
	case TensorBody:
		return limit{what: "an inference request (http.max_body_bytes)", bytes: c.MaxInferBytes, chunks: maxChunks}
	case LoadBody:
		return limit{what: "a load with files (http.max_body_bytes)", bytes: c.MaxInferBytes, chunks: maxChunks, json: true}
	case StepBody:
		return limit{what: "a request with a compiled step", bytes: maxStepBytes, chunks: maxChunks, json: true}
	case VersionBody, UploadBody:
		return limit{what: "an upload (upload.max_bytes)", bytes: c.MaxUploadBytes}
	case UpdateBody:
		return limit{what: "an update of the system", bytes: maxUpdateBytes}
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
	return edgewise.Errorf("httpapi.admit", edgewise.TooLarge, "%sthe body of %s may have at most %d bytes", said, l.what,
		l.bytes).WithLimit(l.bytes)
}

func (l limit) choppy() error {
	return &edgewise.Error{
		Op: "httpapi.Stream.Read", Kind: edgewise.Invalid, Limit: int64(l.chunks),
		Err: fmt.Errorf("Chunked request body exceeds maximum of %d non-empty chunks. Send fewer or larger HTTP chunks.",
			l.chunks),
	}
}
