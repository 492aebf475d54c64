// Package alerts decides once a minute by rules whether something is wrong, and tells a webhook and people by e-mail.
package alerts

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/activity"
)

// Where the settings are stored.
const (
	bucket = "box"
	Key    = "alerts"
)

// Settings are the rules and targets with their secrets. They are stored as JSON.
type Settings struct {
	Rules         []admin.AlertRule `json:"rules"`
	RepeatSeconds int64             `json:"repeat_seconds"`
	WebhookURL    string            `json:"webhook_url"`
	EmailServer   string            `json:"email_server"`
	EmailFrom     string            `json:"email_from"`
	EmailTo       []string          `json:"email_to"`
	EmailUser     string            `json:"email_user"`
	EmailPassword string            `json:"email_password"`
}

// Config is what Alerts need.
type Config struct {
	Documents edgewise.Documents
	First     Settings                   // in force until others are stored
	Facts     func() Facts               // what rules look at beside requests
	Box       func() string              // the name of the appliance
	Changed   func(active []admin.Alert) // is called when an alert begins or ends; nil: nothing is
	Logger    *slog.Logger
}

// Alerts are safe for concurrent use.
type Alerts struct {
	config  Config
	targets []*target

	mu       sync.Mutex // guards the fields below
	settings Settings
	rules    *states
	sent     []admin.AlertDelivery // the latest first
}

// maxDeliveries bounds the deliveries that are shown.
const maxDeliveries = 20

// New reads the stored settings. Damaged ones have no effect, and are logged.
func New(c Config) *Alerts {
	a := &Alerts{config: c, settings: c.First, rules: newStates()}
	a.targets = []*target{newTarget(a, "webhook", postWebhook), newTarget(a, "email", mailer{tlsPort: "465"}.send)}
	err := c.Documents.View(func(tx edgewise.DocumentsTx) error {
		text := tx.Get(bucket, Key)
		if text == nil {
			return nil
		}
		s, err := Decode(text)
		if err == nil {
			a.settings = s
		}
		return err
	})
	if err != nil {
		c.Logger.Error("the stored alerts are damaged and have no effect", "error", err)
	}
	return a
}

// Decode reads stored settings. Errors: Invalid.
func Decode(text []byte) (s Settings, err error) {
	if err := json.Unmarshal(text, &s); err != nil {
		return s, edgewise.Errorf("alerts.Decode", edgewise.Invalid, "%w", err)
	}
	return s, s.check()
}

// Run sends what is queued until ctx ends.
func (a *Alerts) Run(ctx context.Context) {
	var work sync.WaitGroup
	for _, t := range a.targets {
		work.Go(func() { t.run(ctx) })
	}
	work.Wait()
}

// Minute looks at what was counted in a minute, and queues a message about the alerts that begin, end, or last.
func (a *Alerts) Minute(samples []activity.Sample) {
	facts := a.config.Facts()
	now := time.Now()
	a.mu.Lock()
	repeat := time.Duration(a.settings.RepeatSeconds) * time.Second
	told, changed := a.rules.evaluate(now, a.settings.Rules, &facts, samples, repeat)
	active := a.rules.active()
	a.mu.Unlock()
	for _, alert := range told {
		a.config.Logger.Warn("alert", "kind", alert.Kind, "subject", alert.Subject, "ended", alert.Ended, "text", alert.Text)
	}
	a.tell(told)
	if changed && a.config.Changed != nil {
		a.config.Changed(active)
	}
}

// tell queues a message about alerts, if there are any.
func (a *Alerts) tell(list []admin.Alert) {
	if len(list) == 0 {
		return
	}
	m := a.message(list)
	for _, t := range a.targets {
		t.queue(m)
	}
}

// Tell queues a message about what has happened to a subject, which no rule looks for and which does not last.
func (a *Alerts) Tell(kind, subject, text string) {
	text = oneLine(strings.ToValidUTF8(text, "?"))
	a.config.Logger.Warn("alert", "kind", kind, "subject", subject, "text", text)
	a.tell([]admin.Alert{{Kind: kind, Subject: subject, Since: time.Now().UTC(), Text: text}})
}

// maxTold bounds the alerts in one message.
const maxTold = 50

// message makes the message about alerts.
func (a *Alerts) message(list []admin.Alert) admin.AlertMessage {
	m := admin.AlertMessage{Box: a.config.Box(), Time: time.Now().UTC(), Alerts: list[:min(len(list), maxTold)]}
	var lines []string
	for _, alert := range m.Alerts {
		lines = append(lines, alert.Text)
	}
	if left := len(list) - maxTold; left > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", left))
	}
	m.Text = strings.Join(lines, "\n")
	return m
}

// Active returns the alerts that have begun and not ended.
func (a *Alerts) Active() []admin.Alert {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rules.active()
}

// Get describes the rules, the alerts and what was sent, without secrets.
func (a *Alerts) Get() admin.Alerts {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.settings
	return admin.Alerts{
		Rules: append([]admin.AlertRule{}, s.Rules...), RepeatSeconds: s.RepeatSeconds,
		Targets: admin.AlertTargets{
			WebhookHost: hostOf(s.WebhookURL), EmailServer: s.EmailServer, EmailFrom: s.EmailFrom,
			EmailTo: append([]string{}, s.EmailTo...), EmailUser: s.EmailUser, EmailPassword: s.EmailPassword != "",
		},
		Active: a.rules.active(), Deliveries: append([]admin.AlertDelivery{}, a.sent...),
	}
}

// Set changes the rules and targets. Errors: Invalid with Field, and those of the store.
func (a *Alerts) Set(c admin.AlertsChange) (admin.Alerts, error) {
	a.mu.Lock()
	s := a.settings
	if c.EmailServer != s.EmailServer || c.EmailUser != s.EmailUser {
		s.EmailPassword = "" // another server must not learn it
	}
	s.Rules, s.RepeatSeconds, s.EmailServer, s.EmailFrom, s.EmailTo, s.EmailUser = c.Rules, c.RepeatSeconds, c.EmailServer,
		c.EmailFrom, c.EmailTo, c.EmailUser
	if c.WebhookURL != nil {
		s.WebhookURL = *c.WebhookURL
	}
	if c.EmailPassword != nil {
		s.EmailPassword = *c.EmailPassword
	}
	err := s.check()
	if err == nil {
		err = a.store(s)
	}
	if err == nil {
		a.settings = s
		a.rules.keep(s.Rules)
	}
	a.mu.Unlock()
	return a.Get(), err
}

// RenameModel lets rules about a model be about it under its new name.
func (a *Alerts) RenameModel(name, to string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.settings
	s.Rules = slices.Clone(s.Rules)
	for i := range s.Rules {
		if s.Rules[i].Model == name {
			s.Rules[i].Model = to
		}
	}
	if slices.Equal(s.Rules, a.settings.Rules) {
		return nil
	}
	if err := a.store(s); err != nil {
		return err
	}
	a.settings = s
	a.rules.keep(s.Rules)
	return nil
}

func (a *Alerts) store(s Settings) error {
	text, err := json.Marshal(s)
	if err != nil {
		return edgewise.Errorf("alerts.store", edgewise.Internal, "%w", err)
	}
	return a.config.Documents.Update(func(tx edgewise.DocumentsTx) error { return tx.Put(bucket, Key, text) })
}

// Test sends a message to each target now, and returns how that ended.
func (a *Alerts) Test(ctx context.Context) []admin.AlertTest {
	m := a.message([]admin.Alert{{Kind: "test", Since: time.Now().UTC(), Text: "This is a test of the alerts."}})
	m.Test = true
	results := []admin.AlertTest{}
	for _, t := range a.targets {
		s := a.current()
		if !s.has(t.name) {
			continue
		}
		result := admin.AlertTest{Target: t.name}
		if err := t.attempt(ctx, &s, m); err != nil {
			result.Error = s.redact(err)
		}
		results = append(results, result)
	}
	return results
}

func (a *Alerts) current() Settings {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.settings
}

// note keeps a delivery to be shown.
func (a *Alerts) note(d admin.AlertDelivery) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent = slices.Insert(a.sent, 0, d)
	a.sent = a.sent[:min(len(a.sent), maxDeliveries)]
	if d.Error != "" {
		a.config.Logger.Error("an alert was not sent", "target", d.Target, "attempts", d.Attempts, "error", d.Error)
	}
}
