package download

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise/api/fetch"
)

// silent is a place whose answers bring a part of a file, and then nothing more.
type silent struct {
	*shelf
	brings string
}

func (s silent) Open(ctx context.Context, _ fetch.Entry, _ int64) (io.ReadCloser, error) {
	waits := func([]byte) (int, error) { <-ctx.Done(); return 0, ctx.Err() }
	return io.NopCloser(io.MultiReader(strings.NewReader(s.brings), reader(waits))), nil
}

type reader func([]byte) (int, error)

func (r reader) Read(data []byte) (int, error) { return r(data) }

// TestWhatHasComeIsToldAlsoWhenNothingMoreComes holds that the last progress before a silence is all that was received, beside what
// was there.
func TestWhatHasComeIsToldAlsoWhenNothingMoreComes(t *testing.T) {
	folder := t.TempDir()
	s := silent{&shelf{files: map[string]string{"m": strings.Repeat("m", 1000)}}, strings.Repeat("m", 300)}
	e := s.entry("m")
	lay(t, filepath.Join(folder, "parts", e.Key()), strings.Repeat("m", 40))
	ask, err := json.Marshal(fetch.Request{Version: 1, Command: fetch.Get, URL: "x://", Folder: folder, Files: []fetch.Entry{e}})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		in, write := io.Pipe()
		var out bytes.Buffer
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = fetch.Serve(ctx, in, &out, func(ctx context.Context, r *fetch.Request, to fetch.Replies) error { return Get(ctx, s, r, to) })
		}()
		if _, err := write.Write(append(ask, '\n')); err != nil {
			t.Fatal(err)
		}
		time.Sleep(stallTimeout / 2)
		synctest.Wait()
		said := strings.TrimSpace(out.String())
		if said != `{"progress":{"bytes":300,"had":40}}` {
			t.Errorf("it says %s", said)
		}
		cancel()
		_ = write.Close()
		<-done
	})
}
