package e2e

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// Under load, labels flip this often, while this many clients ask.
const (
	labelFlips = 20
	callers    = 8
)

func TestNoRequestFailsWhileLabelsFlip(t *testing.T) {
	b := serveReady(t, t.TempDir())
	b.upload("cat", "", biased(1))
	b.upload("cat", "", biased(2))
	var asked [3]atomic.Int64 // answers by version
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var work sync.WaitGroup
	for range callers {
		work.Go(func() {
			for ctx.Err() == nil {
				version, err := biasedVersion(http.DefaultClient, b.url, "cat")
				if err != nil {
					t.Error(err)
					return
				}
				asked[version].Add(1)
			}
		})
	}
	for flips := 0; flips < labelFlips || asked[1].Load() == 0 || asked[2].Load() == 0; flips++ {
		if _, err := b.client.Promote(t.Context(), "cat", "live", int64(1+flips%2)); err != nil {
			t.Errorf("flip %d: %v", flips, err)
			break
		}
	}
	cancel()
	work.Wait()
	t.Logf("%d answers of version 1 and %d of version 2", asked[1].Load(), asked[2].Load())
	b.stop()
}
