package httpapi

import (
	"bytes"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/edgewise-ai/edgewise"
)

// Pages of other sites may call this server where an origin is allowed, by http.cors_origins for every caller, or by an
// API key for those who have that key. They never act for a person who is logged in: a cookie that a page of another
// site sends is not looked at, and Access-Control-Allow-Credentials is never answered.

// preflightAge is how long a browser may remember the answer to a preflight, in seconds.
const preflightAge = "600"

// anyOrigin stands for every origin in a list of origins.
const anyOrigin = "*"

// foreign tells whether an Origin header names a page of another site than the one that the Host header names.
func foreign(origin, host []byte) bool {
	if len(origin) == 0 {
		return false
	}
	_, own, ok := bytes.Cut(origin, []byte("://"))
	return !ok || !bytes.EqualFold(own, host)
}

// hasOrigin tells whether an origin is in a list of origins.
func hasOrigin(list []string, origin string) bool {
	return slices.Contains(list, anyOrigin) || slices.Contains(list, origin)
}

// opensTo tells whether pages of other sites may use the route at all: not what only people do who are logged in, or
// who are about to be.
func (r *Route) opensTo() bool { return r.Rights != 0 || r.Public && r.Method == "GET" }

// originConfigured tells whether every caller may come from an origin.
func (s *Server) originConfigured(origin []byte) bool {
	return len(s.cfg.Origins) > 0 && hasOrigin(s.cfg.Origins, string(origin))
}

// originKnown tells whether some caller may come from an origin. Which one is known once the key has been read.
func (s *Server) originKnown(origin []byte) bool {
	return s.originConfigured(origin) || s.deps.Accounts != nil && s.deps.Accounts.HasOrigin(string(origin))
}

// checkOrigin refuses what a page of another site asks a browser to change here, unless that origin may. Error: Denied.
func (s *Server) checkOrigin(h *head, header *fasthttp.RequestHeader) error {
	if isSafe(header) || !foreign(h.origin, h.host) {
		return nil
	}
	if s.router.find(header).route.opensTo() && s.originKnown(h.origin) {
		return nil
	}
	return originDenied(h.origin, h.host)
}

func originDenied(origin, host []byte) error {
	return edgewise.Errorf("httpapi.checkOrigin", edgewise.Denied, "a page of origin %.260q may not change this server, "+
		"which was addressed as %.260q: "+
		"http.cors_origins and the origins of an API key name those that may", origin, host)
}

// isSafe tells whether a method changes nothing.
func isSafe(header *fasthttp.RequestHeader) bool {
	return header.IsGet() || header.IsHead() || header.IsOptions()
}

// foreignOrigin returns the origin of a page of another site, nil for any other request.
func foreignOrigin(header *fasthttp.RequestHeader) []byte {
	if origin := Field(header, fiber.HeaderOrigin); foreign(origin, header.Host()) {
		return origin
	}
	return nil
}

// permitOrigin decides whether a caller may come from the origin of a request, once the caller is known. Error: Denied.
func (s *Server) permitOrigin(header *fasthttp.RequestHeader, r *Request) error {
	if r.origin == nil || !r.route.opensTo() {
		return nil // checkOrigin has refused changes
	}
	byKey := r.Caller != nil && hasOrigin(r.Caller.Origins, string(r.origin))
	r.originAllowed = byKey || s.originConfigured(r.origin)
	if r.originAllowed || isSafe(header) {
		return nil
	}
	return originDenied(r.origin, header.Host())
}

// allowOrigin tells a browser that a page of another site may read the answer, where it may.
func (s *Server) allowOrigin(ctx *fasthttp.RequestCtx, r *Request) {
	header := &ctx.Response.Header
	if r.origin != nil || len(s.cfg.Origins) > 0 {
		header.Add(fiber.HeaderVary, fiber.HeaderOrigin)
	}
	if r.origin == nil || !r.originAllowed {
		return
	}
	header.SetBytesV(fiber.HeaderAccessControlAllowOrigin, r.origin)
	header.Set(fiber.HeaderAccessControlExposeHeaders, "*")
	if header.Peek("Cross-Origin-Resource-Policy") == nil {
		header.Set("Cross-Origin-Resource-Policy", "cross-origin")
	}
}

// preflight answers a browser that asks whether a page of another site may send a request, and tells whether this was
// such a question. The key is not in it: what some caller may do from there is answered with yes.
func (s *Server) preflight(ctx *fasthttp.RequestCtx, r *Request) bool {
	ask := &ctx.Request.Header
	if r.origin == nil || !ask.IsOptions() {
		return false
	}
	method := ask.Peek(fiber.HeaderAccessControlRequestMethod)
	if len(method) == 0 {
		return false
	}
	header := &ctx.Response.Header
	header.Set(fiber.HeaderVary,
		strings.Join([]string{
			fiber.HeaderOrigin, fiber.HeaderAccessControlRequestMethod,
			fiber.HeaderAccessControlRequestHeaders,
		}, ", "))
	if wanted := s.router.findMethod(method, r.path); wanted.route == nil || !wanted.route.opensTo() ||
		!s.originKnown(r.origin) {
		s.writeError(ctx, edgewise.Errorf("httpapi.preflight", edgewise.Denied,
			"a page of origin %.260q may not send %.20q to this path: see http.cors_origins", r.origin, method))
		return true
	}
	header.SetBytesV(fiber.HeaderAccessControlAllowOrigin, r.origin)
	header.SetBytesV(fiber.HeaderAccessControlAllowMethods, method)
	header.Set(fiber.HeaderAccessControlAllowHeaders, "*, Authorization")
	header.Set(fiber.HeaderAccessControlMaxAge, preflightAge)
	if string(ask.Peek("Access-Control-Request-Private-Network")) == "true" {
		header.Set("Access-Control-Allow-Private-Network", "true")
	}
	ctx.SetStatusCode(fasthttp.StatusNoContent)
	return true
}
