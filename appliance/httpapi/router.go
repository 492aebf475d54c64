package httpapi

import (
	"bytes"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"
)

// maxParams bounds the parameters of a path.
const maxParams = 2

// methods are those that the server implements, in the order of an Allow header.
var methods = [...]string{indexGET: "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"}

// indexGET is where GET is in methods.
const indexGET = 0

// interfaces are the first segments of paths that are never files of the page.
var interfaces = []string{"v2", "v1", "ping", "predictions", "api", "metrics"}

// router finds the route of a request. It is the only code that reads a path to decide anything: authorization, the
// bound of the body and the audit log follow from the route. It compares the target as it came, up to the first '?':
// nothing is decoded, joined or cleaned, and letters keep their case. It is not changed once it is made.
type router struct {
	roots [len(methods)]node
	page  *Route // of GET and HEAD outside the interfaces
	none  *Route // of everything else
}

// node is a place in the tree of one method: what may follow the segments that lead to it.
type node struct {
	fixed []child
	verbs []child // for a segment that is not empty and ends in the child's, such as ":predict"
	param *node   // for a segment that is not empty and not in fixed or verbs, or leads nowhere there
	route *Route
}

// child is a fixed segment and what may follow it. Lists are short, and comparing is quicker than hashing.
type child struct {
	segment string
	node    *node
}

// child returns the node of a fixed segment, nil for none.
func (n *node) child(segment []byte) *node {
	for i := range n.fixed {
		if n.fixed[i].segment == string(segment) {
			return n.fixed[i].node
		}
	}
	return nil
}

// grow returns the node of a segment in list, and adds it where it is not there.
func grow(list *[]child, segment string) *node {
	for _, c := range *list {
		if c.segment == segment {
			return c.node
		}
	}
	*list = append(*list, child{segment, &node{}})
	return (*list)[len(*list)-1].node
}

// match is what the router found: a route, and the segments of the path that stand for its parameters, percent-encoded
// as they came. They are valid as long as the request is.
type match struct {
	route  *Route
	path   []byte
	values [maxParams][]byte
}

// value returns the segment that stands for a parameter; nil when the route has none of that name.
func (m *match) value(name string) []byte {
	for i, have := range m.route.params {
		if have == name {
			return m.values[i]
		}
	}
	return nil
}

// add adds a line of the table. Two of the same method and path are a fault of the table.
func (r *router) add(entry *Route) { r.roots[methodIndex([]byte(entry.Method))].add(entry) }

func (n *node) add(entry *Route) {
	for segment := range strings.SplitSeq(entry.Path[1:], "/") {
		name, ok := strings.CutPrefix(segment, ":")
		if !ok {
			n = grow(&n.fixed, segment)
			continue
		}
		name, verb, ok := strings.Cut(name, ":")
		entry.params = append(entry.params, name)
		switch {
		case ok:
			n = grow(&n.verbs, ":"+verb)
		case n.param == nil:
			n.param = &node{}
			fallthrough
		default:
			n = n.param
		}
	}
	if n.route != nil || len(entry.params) > maxParams {
		panic("BUG: the route " + entry.Method + " " + entry.Path + " is in the table twice or has too many parameters")
	}
	n.route = entry
}

// find returns the route of a request. It returns page or none where the table has no route.
func (r *router) find(header *fasthttp.RequestHeader) (m match) {
	m.route, m.path = r.none, header.RequestURI()
	if at := bytes.IndexByte(m.path, '?'); at >= 0 {
		m.path = m.path[:at]
	}
	if len(m.path) == 0 || m.path[0] != '/' {
		return m
	}
	if found := r.findMethod(header.Method(), m.path); found.route != nil {
		return found
	}
	if (header.IsGet() || header.IsHead()) && !isInterface(m.path) {
		m.route = r.page
	}
	return m
}

// findMethod returns the route of a method and a path; its route is nil where the table has none.
func (r *router) findMethod(method, path []byte) (m match) {
	m.path = path
	index := methodIndex(method)
	if index < 0 || len(path) == 0 {
		return m
	}
	if m.route = r.roots[index].find(path[1:], &m.values, 0); m.route == nil && string(method) == "HEAD" {
		m.route = r.roots[indexGET].find(path[1:], &m.values, 0)
	}
	return m
}

// find walks down along path, without its first slash. Segments that are fixed come before parameters, and of those the
// ones with a verb before others.
func (n *node) find(path []byte, values *[maxParams][]byte, used int) *Route {
	segment, rest, more := path, []byte(nil), false
	if at := bytes.IndexByte(path, '/'); at >= 0 {
		segment, rest, more = path[:at], path[at+1:], true
	}
	if next := n.child(segment); next != nil {
		if found := next.end(rest, more, values, used); found != nil {
			return found
		}
	}
	for _, c := range n.verbs {
		at := len(segment) - len(c.segment)
		if at <= 0 || string(segment[at:]) != c.segment {
			continue
		}
		values[used] = segment[:at]
		if found := c.node.end(rest, more, values, used+1); found != nil {
			return found
		}
	}
	if n.param == nil || len(segment) == 0 {
		return nil
	}
	values[used] = segment
	return n.param.end(rest, more, values, used+1)
}

// end is find behind a segment that n stands for; more tells whether there is another one.
func (n *node) end(rest []byte, more bool, values *[maxParams][]byte, used int) *Route {
	if !more {
		return n.route
	}
	return n.find(rest, values, used)
}

// allowed lists the methods that a path has routes for, as an Allow header does; "" for none.
func (r *router) allowed(path []byte) string {
	var list []string
	var values [maxParams][]byte
	for i, method := range methods {
		from := i
		if method == "HEAD" {
			from = indexGET
		}
		if len(path) > 0 && (r.roots[i].find(path[1:], &values, 0) != nil ||
			r.roots[from].find(path[1:], &values, 0) != nil) {
			list = append(list, method)
		}
	}
	return strings.Join(list, ", ")
}

func methodIndex(method []byte) int {
	for i, known := range methods {
		if string(method) == known {
			return i
		}
	}
	return -1
}

// isInterface tells whether a path belongs to an interface and not to the page.
func isInterface(path []byte) bool {
	first, _, _ := bytes.Cut(path[min(1, len(path)):], []byte{'/'})
	return slices.Contains(interfaces, string(first))
}
