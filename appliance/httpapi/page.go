package httpapi

import (
	"bytes"
	"path"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// PageFile is one file of the page, in the form that one client takes. Body is not modified.
type PageFile struct {
	Body         []byte
	Type         string // Content-Type
	Encoding     string // Content-Encoding, empty for none
	ETag         string // quoted
	CacheControl string
	Policy       string // Content-Security-Policy
}

// pageFile answers GET outside the interfaces.
func (s *Server) pageFile(c *fiber.Ctx) error {
	if s.page(c.Context()) {
		return nil
	}
	return s.unrouted(c)
}

// root tells a person with a browser or curl where they are: the one gets the page, the other a list.
func (s *Server) root(c *fiber.Ctx) error {
	if s.page(c.Context()) {
		return nil
	}
	return s.overview(c)
}

// page answers with a file of the page, and tells whether there is one for this request. Its addresses without an
// extension are for browsers: any other client is told that there is nothing.
func (s *Server) page(ctx *fasthttp.RequestCtx) bool {
	request := &ctx.Request
	name := stateOf(ctx).path
	if s.deps.Page == nil {
		return false
	}
	if path.Ext(string(name)) == "" && !bytes.Contains(request.Header.Peek(fiber.HeaderAccept), []byte("text/html")) {
		return false
	}
	file, found := s.deps.Page(string(bytes.TrimPrefix(name, []byte{'/'})),
		string(request.Header.Peek(fiber.HeaderAcceptEncoding)))
	if !found {
		return false
	}
	header := &ctx.Response.Header
	header.Set(fiber.HeaderVary, "Accept, Accept-Encoding")
	header.Set(fiber.HeaderETag, file.ETag)
	header.Set(fiber.HeaderCacheControl, file.CacheControl)
	header.Set(fiber.HeaderContentSecurityPolicy, file.Policy)
	header.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	header.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Permissions-Policy", "camera=(self), microphone=(self), geolocation=(), payment=(), usb=()")
	if file.ETag != "" && bytes.Contains(request.Header.Peek(fiber.HeaderIfNoneMatch), []byte(file.ETag)) {
		ctx.SetStatusCode(fiber.StatusNotModified)
		return true
	}
	header.SetContentType(file.Type)
	if file.Encoding != "" {
		header.Set(fiber.HeaderContentEncoding, file.Encoding)
	}
	ctx.SetStatusCode(fiber.StatusOK)
	ctx.Response.SetBodyRaw(file.Body)
	return true
}
