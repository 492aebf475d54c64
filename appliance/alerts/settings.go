package alerts

import (
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// Bounds of settings.
const (
	maxRules      = 64
	maxMinutes    = 24 * 60
	maxRepeat     = 31 * 24 * 3600
	maxRecipients = 16
	maxText       = 2048 // bytes of a URL, an address, a name or a password
)

// check returns an error when settings are out of bounds. Errors: Invalid with Field.
func (s *Settings) check() error {
	fail := func(field, format string, args ...any) error {
		return edgewise.Errorf("alerts.Set", edgewise.Invalid, format, args...).WithField(field)
	}
	if len(s.Rules) > maxRules {
		return fail("rules", "there are %d rules: want at most %d", len(s.Rules), maxRules)
	}
	for i, r := range s.Rules {
		if err := checkRule(r); err != nil {
			return fail("rules", "rule %d: %v", i+1, err)
		}
	}
	if s.RepeatSeconds != 0 && (s.RepeatSeconds < 60 || s.RepeatSeconds > maxRepeat) {
		return fail("repeat_seconds", "repeat_seconds is %d: want 0, or 60 to %d", s.RepeatSeconds, maxRepeat)
	}
	if s.WebhookURL != "" && hostOf(s.WebhookURL) == "" {
		return fail("webhook_url", "the webhook is no http or https URL of at most %d bytes", maxText)
	}
	for field, text := range map[string]string{"email_user": s.EmailUser, "email_password": s.EmailPassword} {
		if len(text) > maxText || strings.ContainsAny(text, "\r\n\x00") {
			return fail(field, "%s is longer than %d bytes, or has line ends", field, maxText)
		}
	}
	if s.EmailServer == "" {
		return nil
	}
	if host, port, err := net.SplitHostPort(s.EmailServer); err != nil || host == "" || port == "" {
		return fail("email_server", "the mail server is %.60q: want host:port", s.EmailServer)
	}
	if err := checkAddress(s.EmailFrom); err != nil {
		return fail("email_from", "the sender %v", err)
	}
	if len(s.EmailTo) == 0 || len(s.EmailTo) > maxRecipients {
		return fail("email_to", "there are %d recipients: want 1 to %d", len(s.EmailTo), maxRecipients)
	}
	for _, to := range s.EmailTo {
		if err := checkAddress(to); err != nil {
			return fail("email_to", "the recipient %v", err)
		}
	}
	return nil
}

func checkRule(r admin.AlertRule) error {
	most := map[string]float64{
		admin.AlertErrorRate: 100, admin.AlertP99: 3.6e6, admin.AlertDisk: 100, admin.AlertTemperature: 200,
		admin.AlertModelDown: 0,
	}
	limit, known := most[r.Kind]
	switch {
	case !known:
		return fmt.Errorf("kind is %.40q: want error_rate, p99, disk, temperature or model_down", r.Kind)
	case !(r.Above >= 0 && r.Above <= limit):
		return fmt.Errorf("above is %v: want 0 to %v", r.Above, limit)
	case r.Minutes < 0 || r.Minutes > maxMinutes:
		return fmt.Errorf("minutes is %d: want 0 to %d", r.Minutes, maxMinutes)
	case r.Model == "":
		return nil
	case r.Kind == admin.AlertDisk || r.Kind == admin.AlertTemperature:
		return fmt.Errorf("%s is not about a model", r.Kind)
	}
	return edgewise.CheckName(r.Model)
}

// checkAddress accepts an address without a name, as person@host.
func checkAddress(text string) error {
	address, err := mail.ParseAddress(text)
	if err != nil || address.Address != text || len(text) > maxText {
		return fmt.Errorf("%.60q is no e-mail address", text)
	}
	return nil
}

// hostOf returns the host of a URL, and "" where there is none.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || len(text) > maxText || u.Hostname() == "" {
		return ""
	}
	return u.Host
}

// has tells whether a target is set.
func (s *Settings) has(target string) bool {
	if target == "webhook" {
		return s.WebhookURL != ""
	}
	return s.EmailServer != ""
}

// redact returns the text of an error without secrets: the errors of net/http name the URL.
func (s *Settings) redact(err error) string {
	text := err.Error()
	for _, secret := range []string{s.WebhookURL, s.EmailPassword} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "(secret)")
		}
	}
	return text[:min(len(text), 400)]
}
