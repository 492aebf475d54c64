package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// swaps is how often a new version takes over under load, in each isolation mode.
var swaps = flag.Int("e2e.swaps", 8, "hot swaps under load in each isolation mode")

// isolations are the values of engine.isolation.
var isolations = []string{"process", "none"}

// TestHotSwapUnderLoad pushes version after version to live while clients ask: no request fails, each answer is of the
// version that it names, and once a push has returned no request that begins later is answered by an older version. In
// between the number of instances changes in place.
func TestHotSwapUnderLoad(t *testing.T) {
	for _, isolation := range isolations {
		t.Run(isolation, func(t *testing.T) {
			b := serveReady(t, t.TempDir(), "--set", "engine.isolation="+isolation)
			b.upload("cat", "?promote=true", biased(1))
			var live, answers atomic.Int64
			live.Store(1)
			stop := make(chan struct{})
			var work sync.WaitGroup
			for caller := range callers {
				work.Go(func() {
					client := http.DefaultClient
					if caller%2 == 0 {
						client = repeating()
						defer client.CloseIdleConnections()
					}
					for {
						select {
						case <-stop:
							return
						default:
						}
						least := live.Load()
						version, err := biasedVersion(client, b.url, "cat")
						if err == nil && version < least {
							err = fmt.Errorf("version %d answers although version %d was live before", version, least)
						}
						if err != nil {
							t.Error(err)
							return
						}
						answers.Add(1)
					}
				})
			}
			for v := int64(2); v <= int64(*swaps)+1; v++ {
				b.upload("cat", "?promote=true", biased(float32(v)))
				live.Store(v)
				b.instances("cat", int(v%3)+1)
			}
			close(stop)
			work.Wait()
			t.Logf("%d swaps, %d answers", *swaps, answers.Load())
			if answers.Load() < int64(*swaps) {
				t.Error("too little happened")
			}
			b.stop()
		})
	}
}

// instances changes the number of instances of a model in place.
func (b *box) instances(model string, count int) {
	b.t.Helper()
	config := strconv.Quote(fmt.Sprintf(`{"instance_group":[{"count":%d}]}`, count))
	if status, text := b.send(http.MethodPost, "/v2/repository/models/"+model+"/load",
		[]byte(`{"parameters":{"config":`+config+`}}`), "Content-Type", mimeJSON); status != http.StatusOK {
		b.t.Fatalf("changing the instances of %s: %d %s", model, status, text)
	}
}

// biasedVersion asks a model whose version n answers n, and returns which version answered, once the answer is that
// version's.
func biasedVersion(client *http.Client, url, model string) (int64, error) {
	res, err := client.Post(url+"/v2/models/"+model+"/infer", mimeJSON, strings.NewReader(zeros))
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	var a answer
	if json.Unmarshal(text, &a) != nil || res.StatusCode != http.StatusOK || len(a.Outputs) != 1 || len(a.Outputs[0].Data) != 4 {
		return 0, fmt.Errorf("answer %d %s", res.StatusCode, text)
	}
	version, err := strconv.ParseInt(a.Version, 10, 64)
	if err != nil || a.Outputs[0].Data[0] != float32(version) {
		return 0, fmt.Errorf("the answer mixes versions: %s", text)
	}
	return version, nil
}
