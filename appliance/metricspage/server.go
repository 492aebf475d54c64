// Package metricspage serves GET /metrics at an address of its own, where Prometheus looks for it, as Triton does.
package metricspage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/edgewise-ai/edgewise/appliance/apistatus"
	"github.com/edgewise-ai/edgewise/appliance/listen"
)

// Bounds of the server.
const (
	MaxConnections = 64
	headerBytes    = 8 << 10
	timeout        = 30 * time.Second // to read a request, to write its answer, and of an idle connection
)

// Config is what the server needs.
type Config struct {
	Page   func() (text []byte, contentType string, err error)
	Public func() bool // tells whether anybody may read the page: there are no keys here
	Budget *listen.Budget
	Log    *slog.Logger
}

// Server answers with the page. Any other path is an empty answer, as in Triton.
type Server struct {
	config Config
	inner  *http.Server
}

// New makes a server.
func New(c Config) *Server {
	s := &Server{config: c}
	s.inner = &http.Server{
		Handler: http.HandlerFunc(s.answer), MaxHeaderBytes: headerBytes, ReadTimeout: timeout, WriteTimeout: timeout,
		IdleTimeout: timeout,
		ErrorLog:    slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
	return s
}

// Serve accepts connections, MaxConnections at once, until Close. Error: accepting failed for good.
func (s *Server) Serve(ln net.Listener) error {
	err := s.inner.Serve(listen.New(ln, listen.Options{
		Max: MaxConnections, Key: "metrics.address", Budget: s.config.Budget, Log: s.config.Log, Refuse: refuse,
	}))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Close ends every connection: a page that is not read to its end is no loss.
func (s *Server) Close() { _ = s.inner.Close() }

func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case r.URL.Path != "/metrics":
		w.WriteHeader(http.StatusOK)
	case !s.config.Public():
		http.Error(w, "metrics are private here: ask for them at the REST server with an API key, or make them public in "+
			"the settings (metrics.public)", http.StatusUnauthorized)
	default:
		s.write(r.Context(), w)
	}
}

func (s *Server) write(ctx context.Context, w http.ResponseWriter) {
	text, contentType, err := s.config.Page()
	if err != nil {
		s.config.Log.ErrorContext(ctx, "metrics", "error", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(text)
}

// refuse tells a client why its connection is closed.
func refuse(c net.Conn, why error) {
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	text := apistatus.Message(why)
	_, _ = fmt.Fprintf(c,
		"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
}
