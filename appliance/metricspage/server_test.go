package metricspage

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/appliance/listen"
)

func TestThePageIsAnsweredAndNothingElse(t *testing.T) {
	for _, row := range []struct {
		name, method, path string
		public             bool
		failed             error
		status             int
		text               string
	}{
		{"the page", http.MethodGet, "/metrics", true, nil, http.StatusOK, "nv_inference_count 3"},
		{"another path", http.MethodGet, "/v2", true, nil, http.StatusOK, ""},
		{"another method", http.MethodPost, "/metrics", true, nil, http.StatusMethodNotAllowed, ""},
		{"private", http.MethodGet, "/metrics", false, nil, http.StatusUnauthorized, "metrics.public"},
		{"failed", http.MethodGet, "/metrics", true, errors.New("gone"), http.StatusInternalServerError, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := New(Config{
				Page:   func() ([]byte, string, error) { return []byte("nv_inference_count 3"), "text/plain", row.failed },
				Public: func() bool { return row.public }, Budget: listen.NewBudget(), Log: slog.New(slog.DiscardHandler),
			})
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- s.Serve(ln) }()
			request, err := http.NewRequestWithContext(t.Context(), row.method, "http://"+ln.Addr().String()+row.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if err != nil || answer.StatusCode != row.status || !strings.Contains(string(text), row.text) ||
				row.text == "" && len(text) > 0 {
				t.Errorf("got %d %q, %v; want %d %q", answer.StatusCode, text, err, row.status, row.text)
			}
			s.Close()
			if err := <-ended; err != nil {
				t.Errorf("after Close: %v", err)
			}
		})
	}
}
