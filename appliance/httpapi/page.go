package httpapi

import (
	"strings"

	"github.com/gofiber/fiber/v2"
)

// PageFile is a file of the page in the form that one client takes. Body is not modified.
type PageFile struct {
	Body                                       []byte
	Type, Encoding, ETag, CacheControl, Policy string // header values; Policy is the Content-Security-Policy
}

// wantsPage tells whether a request that no route takes is for the page: its addresses and its files are all that is not
// below an interface.
func (s *Server) wantsPage(c *fiber.Ctx) bool {
	return s.deps.Page != nil && (c.Method() == fiber.MethodGet || c.Method() == fiber.MethodHead) && !private([]byte(c.Path()))
}

// page hands out a file of the page.
func (s *Server) page(c *fiber.Ctx) error {
	path := c.Path()
	f, found := s.deps.Page(strings.TrimPrefix(path, "/"), c.Get(fiber.HeaderAcceptEncoding))
	if !found {
		return fiber.ErrNotFound
	}
	set := func(name, value string) {
		if value != "" {
			c.Set(name, value)
		}
	}
	set(fiber.HeaderContentType, f.Type)
	set(fiber.HeaderContentEncoding, f.Encoding)
	set(fiber.HeaderETag, f.ETag)
	set(fiber.HeaderCacheControl, f.CacheControl)
	set(fiber.HeaderContentSecurityPolicy, f.Policy)
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	c.Set("Cross-Origin-Opener-Policy", "same-origin")
	c.Set("Permissions-Policy", "camera=(self), microphone=(self), geolocation=(), payment=(), usb=()")
	c.Set(fiber.HeaderVary, "Accept-Encoding, Accept")
	if f.ETag != "" && c.Get(fiber.HeaderIfNoneMatch) == f.ETag {
		c.Status(fiber.StatusNotModified)
		return nil
	}
	return c.Send(f.Body)
}

// isBrowser tells whether a request for / wants the page, and not what programs are told there.
func isBrowser(c *fiber.Ctx) bool { return strings.Contains(c.Get(fiber.HeaderAccept), "text/html") }
