// Command edgewise-fetch fetches files from object stores and registries for the appliance, which starts it when there
// is something to fetch. Package api/fetch describes what it reads and writes.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/edgewise-ai/edgewise/api/fetch"
	"github.com/edgewise-ai/edgewise/fetch/bucket"
	"github.com/edgewise-ai/edgewise/fetch/download"
	"github.com/edgewise-ai/edgewise/fetch/oci"
	"github.com/edgewise-ai/edgewise/fetch/place"
	"github.com/edgewise-ai/edgewise/fetch/web"
)

// memory is how much the program takes before it collects garbage all the time.
const memory = 48 << 20

// openers returns who opens URLs, by their scheme.
func openers() map[string]place.Opener {
	return map[string]place.Opener{
		"s3": bucket.OpenS3, "gs": bucket.OpenGS, "as": bucket.OpenAS, "oci": oci.Open,
		"http": web.Open, "https": web.Open,
	}
}

func main() {
	debug.SetMemoryLimit(memory)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := fetch.Serve(ctx, os.Stdin, os.Stdout, handler{openers()}.handle); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type handler struct{ openers map[string]place.Opener }

// handle answers one request.
func (h handler) handle(ctx context.Context, r *fetch.Request, to fetch.Replies) (err error) {
	scheme, _, _ := strings.Cut(r.URL, "://")
	open := h.openers[scheme]
	if open == nil {
		return fetch.Failf(fetch.Unsupported, "URLs of the scheme %.20q are not supported", scheme)
	}
	p, err := open(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }()
	switch r.Command {
	case fetch.List:
		return list(ctx, p, to)
	case fetch.Get:
		return download.Get(ctx, p, r, to)
	case fetch.Resolve:
		if from, ok := p.(place.Resolver); ok {
			digest, err := from.Resolve(ctx)
			return sent(to, digest, err)
		}
	case fetch.Put:
		if into, ok := p.(place.Putter); ok {
			digest, err := into.Put(ctx, r, func(f fetch.Fetched) error { return to.Send(fetch.Reply{File: &f}) })
			return sent(to, digest, err)
		}
	case fetch.Sign:
		if at, ok := p.(place.Signer); ok {
			digest, err := at.Sign(ctx, r.Key)
			return sent(to, digest, err)
		}
	}
	return fetch.Failf(fetch.Unsupported, "%s has no command %.20q", scheme, r.Command)
}

func sent(to fetch.Replies, digest string, err error) error {
	if err != nil {
		return err
	}
	if digest == "" {
		return nil
	}
	return to.Send(fetch.Reply{Digest: digest})
}

// list sends the files of a place.
func list(ctx context.Context, p place.Place, to fetch.Replies) error {
	if described, ok := p.(place.Artifacts); ok {
		described.Describe(func(a fetch.Artifact) error { return to.Send(fetch.Reply{Artifact: &a}) })
	}
	count := 0
	return p.List(ctx, func(entries []fetch.Entry) error {
		if count += len(entries); count > fetch.MaxEntries {
			return fetch.Failf(fetch.TooLarge, "there are more than %d files below the URL", fetch.MaxEntries)
		}
		return to.Send(fetch.Reply{Entries: entries})
	})
}
