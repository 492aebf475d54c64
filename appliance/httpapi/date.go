package httpapi

import (
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// date keeps the text of a Date header, which changes once a second. It is safe for concurrent use.
type date struct{ latest atomic.Pointer[dated] }

type dated struct {
	second int64
	text   []byte
}

// at returns the text of a time; nobody writes to it.
func (d *date) at(now time.Time) []byte {
	if l := d.latest.Load(); l != nil && l.second == now.Unix() {
		return l.text
	}
	next := &dated{now.Unix(), fasthttp.AppendHTTPDate(nil, now)}
	d.latest.Store(next)
	return next.text
}
