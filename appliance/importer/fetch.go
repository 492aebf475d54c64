package importer

import (
	"context"
	"os"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/store"
)

// maxReference bounds the file with a reference, in bytes.
const maxReference = 2 << 10

// fetch makes a folder with the files that the reference in an upload's file names. What an earlier start has fetched is not fetched
// again.
func (im *Importer) fetch(ctx context.Context, made *job, data, folder string) error {
	const op = "importer.fetch"
	text, err := store.ReadBounded(data, maxReference)
	if err != nil {
		return edgewise.Errorf(op, edgewise.Invalid, "file %q is no reference of a registry: it has more than %d bytes", made.file.Filename,
			maxReference)
	}
	reference := strings.TrimSpace(string(text))
	im.change(made, func(shown *admin.Job) { shown.Filename = reference })
	if err := os.RemoveAll(folder); err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "what was fetched before cannot be removed")
	}
	release, err := im.betweenTurns(ctx)
	if err != nil {
		return err
	}
	defer release()
	pinned, err := im.config.Fetch(ctx, reference, folder, func(done, total int64) {
		im.change(made, func(shown *admin.Job) { shown.Size = total })
		im.progress(made, stepFetch, done, total)
	})
	if err != nil {
		return err
	}
	im.mu.Lock()
	defer im.mu.Unlock()
	made.origin = pinned
	return nil
}

// betweenTurns lets other jobs go on while one waits for a registry, one at a time. release waits for the job's turn again.
func (im *Importer) betweenTurns(ctx context.Context) (release func(), err error) {
	im.turn <- struct{}{} // which this job holds
	select {
	case im.fetching <- struct{}{}:
		return func() { <-im.fetching; <-im.turn }, nil
	case <-ctx.Done():
		<-im.turn
		return nil, ctx.Err()
	}
}
