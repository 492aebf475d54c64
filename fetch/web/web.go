// Package web reads the document of a fleet and its signature from a web server, which lists nothing: their names are known.
package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise/api/fetch"
	"github.com/edgewise-ai/edgewise/fetch/place"
)

// names are the files that are looked for.
func names() []string { return []string{"fleet.json", "fleet.json.minisig"} }

// timeout bounds a request with its answer.
const timeout = time.Minute

// server is a folder of a web server.
type server struct {
	client http.Client
	base   string // with "/" at its end
}

var _ place.Opener = Open

// Open opens the folder at the URL of a request.
func Open(_ context.Context, r *fetch.Request) (place.Place, error) {
	return &server{http.Client{Timeout: timeout}, strings.TrimSuffix(r.URL, "/") + "/"}, nil
}

// Close ends nothing.
func (s *server) Close() error { return nil }

// List gives the files that the server has. Failures: NotFound when it has none.
func (s *server) List(ctx context.Context, page func([]fetch.Entry) error) error {
	var entries []fetch.Entry
	for _, name := range names() {
		res, err := s.ask(ctx, http.MethodHead, name, 0)
		if f, ok := err.(*fetch.Failure); ok && f.Kind == fetch.NotFound {
			continue
		}
		if err != nil {
			return err
		}
		_ = res.Body.Close()
		if res.ContentLength < 0 {
			return fetch.Failf(fetch.Unsupported, "the server does not say how long %s is", name)
		}
		tag := res.Header.Get("ETag")
		if tag == "" {
			tag = res.Header.Get("Last-Modified")
		}
		entries = append(entries, fetch.Entry{Name: name, Size: res.ContentLength, Tag: tag})
	}
	if len(entries) == 0 {
		return fetch.Failf(fetch.NotFound, "there is no %s", names()[0])
	}
	return page(entries)
}

// Open reads a file from offset on.
func (s *server) Open(ctx context.Context, e fetch.Entry, offset int64) (io.ReadCloser, error) {
	res, err := s.ask(ctx, http.MethodGet, e.Name, offset)
	if err != nil {
		return nil, err
	}
	if offset > 0 && res.StatusCode != http.StatusPartialContent {
		if _, err := io.CopyN(io.Discard, res.Body, offset); err != nil {
			_ = res.Body.Close()
			return nil, fetch.Failf(fetch.Changed, "it is shorter than it was")
		}
	}
	return res.Body, nil
}

// ask sends a request. Failures: NotFound, Denied, Unavailable.
func (s *server) ask(ctx context.Context, method, name string, offset int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.base+name, nil)
	if err != nil {
		return nil, fetch.Failf(fetch.Invalid, "it is no URL")
	}
	req.Header.Set("Accept-Encoding", "identity") // so that the length is that of the file
	if offset > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	res, err := s.client.Do(req)
	if err != nil {
		return nil, fetch.Failf(fetch.Unavailable, "the server cannot be reached: %v", err)
	}
	switch {
	case res.StatusCode == http.StatusOK || res.StatusCode == http.StatusPartialContent:
		return res, nil
	case res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusGone:
		err = fetch.Failf(fetch.NotFound, "there is no %s", name)
	case res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden:
		err = fetch.Failf(fetch.Denied, "the server answers %s", res.Status)
	default:
		err = fetch.Failf(fetch.Unavailable, "the server answers %s", res.Status)
	}
	_ = res.Body.Close()
	return nil, err
}
