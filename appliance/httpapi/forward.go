package httpapi

import (
	"bytes"
	"regexp"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// Restriction is a group of the protocol's APIs that are answered only to requests with a header of a value.
type Restriction struct {
	APIs          []string // by Triton's names, such as "model-repository"
	Header, Value string
}

// forward makes parameters of the request's headers whose names match, in the client's spelling. Errors: Invalid.
func (s *Server) forward(c *fiber.Ctx, req *edgewise.Request) error {
	if s.forwarded == nil {
		return nil
	}
	for line := range bytes.Lines(c.Request().Header.RawHeaders()) {
		name, value, ok := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte{':'})
		if !ok || !s.forwarded.Match(name) {
			continue
		}
		if err := kserve.ForwardHeader(req, string(name), string(bytes.Trim(value, " \t"))); err != nil {
			return err
		}
	}
	return nil
}

// headerPattern compiles a pattern of header names, which does not tell capitals from small letters unless it says so.
func headerPattern(pattern string) (*regexp.Regexp, error) {
	if pattern == "" {
		return nil, nil
	}
	return regexp.Compile("(?i)" + pattern)
}
