package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/real"
)

// powerCuts is how often the box is killed. The long loop, on the store alone, is in test/fault.
const powerCuts = 6

func TestPowerCutsLoseNoAcknowledgedPush(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	var known progress
	for range powerCuts {
		b := serveReady(t, dir)
		known = wantVersions(t, b, known)
		cut := time.AfterFunc(time.Duration(20+random.IntN(250))*time.Millisecond, func() { _ = b.cmd.Process.Kill() })
		if pushed := pushUntilCut(b, known.stored); pushed > 0 {
			known.stored += pushed
			known.live = known.stored
		}
		cut.Stop()
		b.kill()
		real.StartMachine(t, dir)
	}
	b := serveReady(t, dir)
	known = wantVersions(t, b, known)
	for v := 1; v <= known.stored; v += 1 + known.stored/10 { // about ten of them
		b.must("model", "promote", fmt.Sprint("cat:", v))
		b.wantBias("cat", fmt.Sprint(v), float32(v))
	}
	b.stop()
	wantHealthy(t, dir)
	t.Logf("%d versions over %d power cuts", known.stored, powerCuts)
	if known.stored == 0 {
		t.Errorf("nothing was pushed, so nothing was tried")
	}
}

// progress is what the box has acknowledged: versions 1 to stored exist, each with its number as its bias, and live is
// the last one that became live.
type progress struct{ stored, live int }

// pushUntilCut pushes versions until the box is gone and returns how many it acknowledged.
func pushUntilCut(b *box, from int) int {
	client := &http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	for n := 0; ; n++ {
		body := bytes.NewReader(biased(float32(from + n + 1)).Bytes())
		res, err := client.Post(b.url+"/api/v1/models/cat/versions", mimeFile, body)
		if err != nil {
			return n
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusCreated {
			return n
		}
	}
}

// wantVersions checks that every acknowledged version is there, that beside them at most the push in flight is there,
// and that the live one answers. It returns what is there now.
func wantVersions(t *testing.T, b *box, known progress) progress {
	t.Helper()
	m, err := b.client.Model(t.Context(), "cat")
	if err != nil && edgewise.KindOf(err) == edgewise.NotFound && known.stored == 0 {
		return known
	}
	if err != nil {
		t.Fatal(err)
	}
	if n := len(m.Versions); n < known.stored || n > known.stored+1 {
		t.Fatalf("%d versions, want %d or one more", n, known.stored)
	}
	for i, v := range m.Versions {
		if v.Version != int64(i+1) {
			t.Errorf("version %d stands at place %d", v.Version, i+1)
		}
	}
	now := progress{len(m.Versions), int(m.Label("live"))}
	if now.live != known.live && now.live != now.stored {
		t.Fatalf("live is version %d, want %d, or the one that was in flight of %d", now.live, known.live, now.stored)
	}
	if now.live > 0 {
		b.wantBias("cat", fmt.Sprint(now.live), float32(now.live))
	}
	return now
}
