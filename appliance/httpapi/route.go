package httpapi

import (
	"context"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/frontend"
)

// Route is one line of the route table: everything that the server knows of a route. The zero value of what is not set
// takes any person who is logged in, and a small body.
type Route struct {
	// A segment of Path that begins with ':' stands for any that is not empty, one as ":model:predict" for any that is
	// not empty and ends in ":predict".
	Method, Path string
	Handler      Handler
	Rights       edgewise.Rights // any one of them is enough; 0: any person who is logged in
	Public       bool            // the caller need not be known
	PublicIf     func() bool     // it is Public while this returns true; nil: it is not
	Confirm      bool            // a person must have given the password a moment ago
	Runs         bool            // it runs a model or a step, which people may do only so often
	AboutServer  bool            // it is about the server itself: keys that are bound to models may use it, too
	Action       string          // in the audit log; empty: it changes nothing that the log is about
	Body         BodyKind        // bounds the body
	Stream       bool            // the handler reads Request.Stream
	API          string          // Triton's name of the group of routes that a header may be needed for; empty: none

	// Fault returns the body of an answer that is an error, in the form that the route's clients read. Nil: that of the
	// inference protocol.
	Fault func(status int, body kserve.ErrorBody) any

	// Room tells whether a body of size bytes could be stored now, before it is asked for. Nil: it always can.
	Room func(size int64) error
	// Refused is called when a request ends with err before it is Counted. Nil: such requests are not counted. ctx
	// carries the caller.
	Refused func(ctx context.Context, r *Request, took time.Duration, err error)

	// What the server derives.
	params      []string              // names of the segments that begin with ':'
	limit       limit                 // of the body
	restriction *frontend.Restriction // nil: no header is needed
}

// Handle adds routes to the table. It must not be called once the server serves. A GET route answers HEAD, too, where
// there is no HEAD route of the same path.
func (s *Server) Handle(routes ...Route) {
	for _, r := range routes {
		r.complete(s.cfg)
		s.table = append(s.table, &r)
		s.router.add(&r)
	}
}

// Routes lists the route table.
func (s *Server) Routes() []Route {
	list := make([]Route, len(s.table))
	for i, r := range s.table {
		list[i] = *r
	}
	return list
}

// complete derives what follows from the configuration.
func (r *Route) complete(cfg Config) {
	r.limit = cfg.limitOf(r.Body)
	for i := range cfg.Restricted {
		for _, api := range cfg.Restricted[i].APIs {
			if r.restriction == nil && r.API != "" && r.API == api {
				r.restriction = &cfg.Restricted[i]
			}
		}
	}
}

// isProtocol tells whether the route belongs to the inference protocol.
func (r *Route) isProtocol() bool { return r.API != "" }

// isAdministration tells whether the route belongs to the administration's interface.
func (r *Route) isAdministration() bool { return strings.HasPrefix(r.Path, "/api/") }
