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

// addPageRoutes comes last: it takes every GET that no other route takes, but for those of the interfaces.
func (s *Server) addPageRoutes(app *fiber.App) {
	if s.deps.Page != nil {
		app.Get("/*", s.page)
	}
}

// page hands out a file of the page: GET /*. Paths of the interfaces are no files.
func (s *Server) page(c *fiber.Ctx) error {
	path := c.Path()
	if private([]byte(path)) {
		return c.Next() // which says whether another method would do
	}
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
