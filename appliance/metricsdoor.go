package appliance

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/edgewise-ai/edgewise/appliance/apistatus"
	"github.com/edgewise-ai/edgewise/appliance/listen"
)

// Bounds of the metrics page's own server.
const (
	metricsHeaderBytes = 8 << 10
	metricsTimeout     = 30 * time.Second
	metricsConnections = 64
)

// boundedMetrics bounds the connections of the metrics page's own server.
func (a *App) boundedMetrics(ln net.Listener) net.Listener {
	return listen.New(ln, listen.Options{
		Max: metricsConnections, Key: "metrics.address", Budget: a.budget, Log: a.logger.With("part", "metrics"),
		Refuse: func(c net.Conn, why error) {
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			text := apistatus.Message(why)
			_, _ = fmt.Fprintf(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
		},
	})
}

// metricsServer answers GET /metrics at an address of its own. Any other path is an empty answer, as in Triton. There are no
// keys here: it answers where metrics are public or accounts are off.
func (a *App) metricsServer() *http.Server {
	page := a.metrics()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodGet:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case r.URL.Path != "/metrics":
			w.WriteHeader(http.StatusOK)
		case !a.openMode() && !a.box.Settings().MetricsPublic:
			http.Error(w, "metrics are private here: ask for them at the REST server with an API key, or make them public in the settings (metrics.public)", http.StatusUnauthorized)
		default:
			text, contentType, err := page()
			if err != nil {
				a.logger.Error("metrics", "error", err)
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", contentType)
			_, _ = w.Write(text)
		}
	})
	return &http.Server{
		Handler: handler, MaxHeaderBytes: metricsHeaderBytes, ReadTimeout: metricsTimeout, WriteTimeout: metricsTimeout, IdleTimeout: metricsTimeout,
		ErrorLog: slog.NewLogLogger(a.logger.Handler(), slog.LevelDebug),
	}
}
