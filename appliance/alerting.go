package appliance

import (
	"os"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/alerts"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/host"
)

// alertsConfig is what alerts need, with the configuration's rules and targets.
func (a *App) alertsConfig() alerts.Config {
	c := a.config.Alerts
	first := alerts.Settings{
		RepeatSeconds: int64(c.Repeat / time.Second), EmailServer: c.EmailServer, EmailFrom: c.EmailFrom, EmailTo: c.EmailTo,
		EmailUser: c.EmailUser, WebhookURL: a.secretOf(c.WebhookFile), EmailPassword: a.secretOf(c.EmailPasswordFile),
	}
	for _, text := range c.Rules {
		rule, _ := config.ParseAlert(text) // has been checked
		first.Rules = append(first.Rules, admin.AlertRule(rule))
	}
	return alerts.Config{
		Documents: a.documents, First: first, Facts: a.facts, Box: func() string { return a.box.Settings().Name },
		Logger: a.logger.With("part", "alerts"),
	}
}

// secretOf reads a secret out of a file, "" for no file.
func (a *App) secretOf(path string) string {
	if path == "" {
		return ""
	}
	text, err := os.ReadFile(path)
	if err != nil {
		a.logger.Error("a secret of the alerts cannot be read", "file", path, "error", err)
	}
	return strings.TrimSpace(string(text))
}

// facts are what alert rules look at beside requests.
func (a *App) facts() alerts.Facts {
	f := alerts.Facts{Temperatures: map[string]float64{}, Down: map[string]string{}}
	if usage, err := a.store.Usage(); err == nil && usage.Total > 0 {
		f.Disk = 100 * float64(usage.Total-usage.Free) / float64(usage.Total)
	}
	if celsius, ok := host.Temperature("/"); ok {
		f.Temperatures[edgewise.Device{}.String()] = celsius
	}
	for _, d := range a.hardware.List() {
		if d.Telemetry != nil && d.Telemetry.Temperature != nil {
			f.Temperatures[d.Name] = *d.Telemetry.Temperature
		}
	}
	for _, s := range a.manager.Statuses() {
		if failed(s) {
			f.Down[s.ID.Name] = s.Reason
		}
	}
	return f
}

// failed tells whether a version should be ready and cannot be.
func failed(s edgewise.Status) bool {
	return s.State == edgewise.StateUnavailable && s.Reason != "" && s.Reason != "unloaded"
}
