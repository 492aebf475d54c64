package httpapi

import "github.com/valyala/fasthttp"

// Bounds that tests go to the edge of.
const (
	MaxChunks     = maxChunks
	MaxChunkLine  = maxChunkLine
	BodyProgress  = bodyProgress
	WatchInterval = watchInterval
)

// WatcherOn tells whether sockets are looked at.
func (s *Server) WatcherOn() bool { return s.watcher.on.Load() }

// NameRest gives paths to the routes of the page and of what is in no table, which have none.
func (s *Server) NameRest() {
	s.router.page.Method, s.router.page.Path = "*", "page"
	s.router.none.Method, s.router.none.Path = "*", "none"
}

// HandleAll gives every route another handler, and no line in the audit log.
func (s *Server) HandleAll(handler func(r Route) Handler) {
	for _, r := range append([]*Route{s.router.page, s.router.none}, s.table...) {
		r.Action, r.Handler = "", handler(*r)
	}
}

// Find returns the route of a request, and the segment that stands for the model.
func (s *Server) Find(header *fasthttp.RequestHeader) (r *Route, model []byte) {
	m := s.router.find(header)
	return m.route, m.value("model")
}
