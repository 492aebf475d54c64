package httpapi

import (
	"bytes"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/edgewise-ai/edgewise"
)

// head is what decides, before anything of a body is read, whether a request is taken. It is read from the raw header
// block, since the parser keeps the last of several contradicting headers.
type head struct {
	hosts, lengths, encodings int    // how many of these headers there are
	host, origin, encoding    []byte // Host, Origin, Transfer-Encoding
	length                    []byte // Content-Length
	folded                    bool   // whether a header continues on a second line
	malformed                 bool   // whether a line is no header, or does not end in CR LF
}

func parseHead(raw []byte) (h head) {
	for len(raw) > 2 || len(raw) > 0 && string(raw) != "\r\n" {
		end := bytes.IndexByte(raw, '\n')
		if end < 1 || raw[end-1] != '\r' {
			h.malformed = true
			return h
		}
		line := raw[:end-1]
		raw = raw[end+1:]
		h.line(line)
	}
	return h
}

// line reads one header.
func (h *head) line(line []byte) {
	if len(line) > 0 && (line[0] == ' ' || line[0] == '\t') {
		h.folded = true
		return
	}
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 || !isToken(line[:colon]) {
		h.malformed = true
		return
	}
	name, value := line[:colon], line[colon+1:]
	switch len(name) {
	case len("Host"), len("Origin"), len("Content-Length"), len("Transfer-Encoding"):
		h.take(name, bytes.Trim(value, " \t"))
	}
}

// isToken tells whether a header can have this name.
func isToken(name []byte) bool {
	for _, b := range name {
		letter := b|0x20 >= 'a' && b|0x20 <= 'z'
		if !letter && b != '-' && (b < '0' || b > '9') && strings.IndexByte("!#$%&'*+.^_`|~", b) < 0 {
			return false
		}
	}
	return true
}

func (h *head) take(name, value []byte) {
	switch {
	case equalFold(name, "Host"):
		h.hosts++
		h.host = value
	case equalFold(name, "Origin"):
		h.origin = value
	case equalFold(name, "Content-Length"):
		h.lengths++
		h.length = value
	case equalFold(name, "Transfer-Encoding"):
		h.encodings++
		h.encoding = value
	}
}

// Field returns a header of a request by its canonical name; nil for none. The library brings any other spelling of a name
// into that form when it reads the request, so Peek would only do so with the name that is looked for.
func Field(header *fasthttp.RequestHeader, canonical string) []byte {
	return header.PeekCanonical([]byte(canonical))
}

func equalFold(name []byte, want string) bool {
	return len(name) == len(want) && strings.EqualFold(string(name), want)
}

// admit decides from the headers alone whether a request is taken. Whatever it refuses is refused before a byte of the
// body is asked for, and the connection is closed.
func (s *Server) admit(header *fasthttp.RequestHeader) error {
	h := parseHead(header.RawHeaders())
	if err := checkRequestLine(header); err != nil {
		return err
	}
	if err := h.checkFraming(header.Protocol()); err != nil {
		return err
	}
	if err := s.checkHost(&h); err != nil {
		return err
	}
	if err := s.checkOrigin(&h, header); err != nil {
		return err
	}
	if h.lengths == 0 {
		return nil
	}
	route := s.router.find(header).route
	n, err := strconv.ParseInt(string(h.length), 10, 64)
	switch {
	case err != nil || n > route.limit.bytes:
		return route.limit.exceeded()
	case route.Room != nil:
		return route.Room(n)
	}
	return nil
}

func checkRequestLine(header *fasthttp.RequestHeader) error {
	const op = "httpapi.admit"
	if !knownMethod(string(header.Method())) {
		return edgewise.Errorf(op, edgewise.Unsupported, "method %.20q is not implemented", header.Method())
	}
	target := header.RequestURI()
	if len(target) == 0 || target[0] != '/' || bytes.HasPrefix(target, []byte("//")) {
		return edgewise.Errorf(op, edgewise.Invalid, "request target %.80q: want a path that begins with one '/'", target)
	}
	for _, b := range target {
		if !inTarget(b) {
			return edgewise.Errorf(op, edgewise.Invalid, "request target %.80q: the byte %q must be percent-encoded", target, b)
		}
	}
	return nil
}

// inTarget tells whether a byte may stand in a path or a query as it is. Those of RFC 3986 may, and those that browsers
// do not encode in queries. '#' would begin a fragment, which URL parsers cut off.
func inTarget(b byte) bool {
	switch b {
	case '#', '\\', '"', '<', '>':
		return false
	}
	return b > ' ' && b < 0x7f
}

func knownMethod(method string) bool {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS":
		return true
	}
	return false
}

// checkFraming refuses every header block about which two readers could disagree where the body ends.
func (h *head) checkFraming(protocol []byte) error {
	const op = "httpapi.admit"
	old := string(protocol) == "HTTP/1.0"
	switch {
	case string(protocol) != "HTTP/1.1" && !old:
		return edgewise.Errorf(op, edgewise.Invalid, "protocol %.20q: want HTTP/1.1", protocol)
	case h.malformed:
		return edgewise.Errorf(op, edgewise.Invalid, "a line of the head is no header, or does not end in CR LF")
	case h.folded:
		return edgewise.Errorf(op, edgewise.Invalid, "a header continues on a second line")
	case h.lengths > 1:
		return edgewise.Errorf(op, edgewise.Invalid, "%d Content-Length headers: want one", h.lengths)
	case h.encodings > 0 && h.lengths > 0:
		return edgewise.Errorf(op, edgewise.Invalid, "both Content-Length and Transfer-Encoding are given: want one of them")
	case h.encodings > 1 || h.encodings > 0 && old:
		return edgewise.Errorf(op, edgewise.Invalid, "want one Transfer-Encoding header, with HTTP/1.1 only")
	case h.encodings > 0 && !equalFold(h.encoding, "chunked"):
		return edgewise.Errorf(op, edgewise.Unsupported, "transfer encoding %.40q is not supported: want chunked", h.encoding)
	case h.hosts > 1 || h.hosts == 0 && !old:
		return edgewise.Errorf(op, edgewise.Invalid, "%d Host headers: want one", h.hosts)
	}
	return nil
}

// checkHost refuses names that nobody gave to this box: a page under its own name, pointed at this box's address,
// would otherwise speak to it with the browser's consent (DNS rebinding).
func (s *Server) checkHost(h *head) error {
	if h.hosts == 0 {
		return nil // HTTP/1.0, which no browser speaks
	}
	if last := s.host.Load(); last != nil && string(h.host) == *last {
		return nil
	}
	host := string(h.host)
	name, ok := hostname(host)
	if !ok {
		return edgewise.Errorf("httpapi.admit", edgewise.Invalid, "host %.260q: want a name or an IP address, and a port "+
			"if need be", host)
	}
	if !s.knows(name) {
		return edgewise.Errorf("httpapi.admit", edgewise.Denied,
			"host %.260q is not a name of this server: use its IP address or localhost, or add the name to http.allowed_hosts",
			name)
	}
	s.host.Store(&host)
	return nil
}

// knows tells whether name is an address or one of the names of this server.
func (s *Server) knows(name string) bool {
	if _, err := netip.ParseAddr(name); err == nil || strings.EqualFold(name, "localhost") {
		return true
	}
	return slices.ContainsFunc(s.cfg.AllowedHosts, func(allowed string) bool {
		return allowed == "*" || strings.EqualFold(name, allowed)
	})
}

// hostname returns a Host header without its port and without the brackets of an IPv6 address. ok is false for what is
// neither a name nor an address, about which URL parsers disagree.
func hostname(host string) (name string, ok bool) {
	name, port := host, ""
	if inner, found := strings.CutPrefix(host, "["); found {
		if name, port, found = strings.Cut(inner, "]"); !found {
			return "", false
		}
		if ip, err := netip.ParseAddr(name); err != nil || !ip.Is6() || ip.Zone() != "" {
			return "", false
		}
	} else {
		if at := strings.IndexByte(host, ':'); at >= 0 {
			name, port = host[:at], host[at:]
		}
		if strings.Trim(name, nameBytes) != "" || name == "" {
			return "", false
		}
	}
	digits, found := strings.CutPrefix(port, ":")
	return name, port == "" || found && len(digits) <= maxPortDigits && strings.Trim(digits, "0123456789") == ""
}

const (
	// nameBytes are those that host names are made of. '_' is in names of containers.
	nameBytes     = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"
	maxPortDigits = 5
)
