package httpapi

import (
	"bytes"
	"path"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
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

// addPage adds the routes of the page, and what answers where the table has no route.
func (s *Server) addPage() {
	s.router = &router{
		page: &Route{Method: "GET", Handler: s.pageFile, Public: true},
		none: &Route{Handler: s.unrouted, Rights: edgewise.Admin},
	}
	s.router.page.complete(s.cfg)
	s.router.none.complete(s.cfg)
	s.Handle(Route{Method: "GET", Path: "/", Handler: s.root, Public: true})
}

// pageFile answers GET outside the interfaces.
func (s *Server) pageFile(r *Request) error {
	if s.page(r) {
		return nil
	}
	return s.unrouted(r)
}

// root tells a person with a browser or curl where they are: the one gets the page, the other a list.
func (s *Server) root(r *Request) error {
	if s.page(r) {
		return nil
	}
	return s.overview(r)
}

// page answers with a file of the page, and tells whether there is one for this request. Its addresses without an
// extension are for browsers: any other client is told that there is nothing.
func (s *Server) page(r *Request) bool {
	ctx := r.Context()
	request, name := &ctx.Request, r.path
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

// overview names the useful URLs.
func (s *Server) overview(r *Request) error {
	return r.WriteJSON(map[string]any{
		"name":    s.deps.Name,
		"version": s.deps.Version,
		"urls": map[string]string{
			"server metadata":  "/v2",
			"readiness":        "/v2/health/ready",
			"inference":        "/v2/models/{model}/infer",
			"models":           "/api/v1/models",
			"metrics":          "/metrics",
			"model repository": "/v2/repository/index",
		},
	})
}
