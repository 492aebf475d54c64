package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Under load, labels flip for this long, from this many clients.
const (
	flipTime = 3 * time.Second
	callers  = 8
)

func TestNoRequestFailsWhileLabelsFlip(t *testing.T) {
	b := serveReady(t, t.TempDir())
	b.upload("cat", "", biased(1))
	b.upload("cat", "", biased(2))
	var asked [3]atomic.Int64 // answers by version
	ctx, cancel := context.WithTimeout(t.Context(), flipTime)
	defer cancel()
	var work sync.WaitGroup
	for range callers {
		work.Go(func() {
			for ctx.Err() == nil {
				version, err := askOnce(b.url)
				if err != nil {
					t.Error(err)
					return
				}
				asked[version].Add(1)
			}
		})
	}
	flips := 0
	for ; ctx.Err() == nil; flips++ {
		if _, err := b.client.Promote(t.Context(), "cat", "live", int64(1+flips%2)); err != nil {
			t.Errorf("flip %d: %v", flips, err)
			break
		}
	}
	work.Wait()
	t.Logf("%d flips, %d answers of version 1 and %d of version 2", flips, asked[1].Load(), asked[2].Load())
	if flips < 10 || asked[1].Load() == 0 || asked[2].Load() == 0 {
		t.Errorf("too little happened")
	}
	b.stop()
}

// askOnce asks the live version and returns which it was, once its answer is that version's.
func askOnce(url string) (int, error) {
	res, err := http.Post(url+"/v2/models/cat/infer", mimeJSON, strings.NewReader(zeros))
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil || res.StatusCode != http.StatusOK || len(a.Outputs) != 1 || len(a.Outputs[0].Data) != 4 {
		return 0, fmt.Errorf("answer %d %s", res.StatusCode, text)
	}
	for version := 1; version <= 2; version++ {
		if a.Version == fmt.Sprint(version) && a.Outputs[0].Data[0] == float32(version) {
			return version, nil
		}
	}
	return 0, fmt.Errorf("the answer mixes versions: %s", text)
}
