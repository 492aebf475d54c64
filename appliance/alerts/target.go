package alerts

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/smtp"
	"net/url"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// Bounds of deliveries.
const (
	maxQueued    = 32 // messages of a target; the oldest are dropped
	maxAttempts  = 10
	firstBackoff = 2 * time.Second // doubles with each attempt
	maxBackoff   = 5 * time.Minute
	sendTimeout  = 15 * time.Second
)

// send sends a message.
type send func(ctx context.Context, s *Settings, m admin.AlertMessage) error

// target sends messages one by one.
type target struct {
	alerts *Alerts
	name   string
	send   send
	queued chan admin.AlertMessage
}

func newTarget(a *Alerts, name string, send send) *target {
	return &target{a, name, send, make(chan admin.AlertMessage, maxQueued)}
}

// queue adds a message, and drops the oldest one when there are too many.
func (t *target) queue(m admin.AlertMessage) {
	if s := t.alerts.current(); !s.has(t.name) {
		return
	}
	for {
		select {
		case t.queued <- m:
			return
		default:
		}
		select {
		case old := <-t.queued:
			t.alerts.note(admin.AlertDelivery{
				Time: time.Now().UTC(), Target: t.name, Subject: old.Text, Error: fmt.Sprintf("dropped: more than %d wait", maxQueued),
			})
		default:
		}
	}
}

func (t *target) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-t.queued:
			t.deliver(ctx, m)
		}
	}
}

// deliver sends a message, and again after a pause that grows while that fails.
func (t *target) deliver(ctx context.Context, m admin.AlertMessage) {
	d := admin.AlertDelivery{Target: t.name, Subject: m.Text}
	for pause := firstBackoff; ; pause = min(2*pause, maxBackoff) {
		s := t.alerts.current()
		if !s.has(t.name) {
			return
		}
		err := t.attempt(ctx, &s, m)
		d.Attempts++
		d.Time, d.Error = time.Now().UTC(), ""
		if err != nil {
			d.Error = s.redact(err)
		}
		if err == nil || d.Attempts == maxAttempts {
			t.alerts.note(d)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// attempt sends a message once.
func (t *target) attempt(ctx context.Context, s *Settings, m admin.AlertMessage) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	return t.send(ctx, s, m)
}

func postWebhook(ctx context.Context, s *Settings, m admin.AlertMessage) error {
	return Post(ctx, s.WebhookURL, m)
}

// Post posts a message as JSON. Redirects are not followed: the message is for the host that was set. Errors, without the URL: Invalid,
// Unavailable.
func Post(ctx context.Context, url string, m any) error {
	const op = "alerts.webhook"
	body, err := json.Marshal(m)
	if err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return edgewise.Errorf(op, edgewise.Invalid, "%w", withoutURL(err))
	}
	req.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{DisableKeepAlives: true}
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	res, err := client.Do(req)
	if err != nil {
		return edgewise.Errorf(op, edgewise.Unavailable, "%w", withoutURL(err))
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.CopyN(io.Discard, res.Body, 64<<10)
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return edgewise.Errorf(op, edgewise.Unavailable, "the webhook answered %d", res.StatusCode)
	}
	return nil
}

// withoutURL returns what is wrong without the URL, which may hold a secret.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// mailer sends messages by SMTP: over TLS at one port, otherwise with STARTTLS where the server offers that. A password
// is sent over TLS or to this machine only.
type mailer struct{ tlsPort string }

func (l mailer) send(ctx context.Context, s *Settings, m admin.AlertMessage) error {
	if err := l.speakSMTP(ctx, s, mailOf(s, &m)); err != nil {
		return edgewise.Errorf("alerts.email", edgewise.Unavailable, "%w", err)
	}
	return nil
}

func (l mailer) speakSMTP(ctx context.Context, s *Settings, text []byte) error {
	host, port, err := net.SplitHostPort(s.EmailServer)
	if err != nil {
		return err
	}
	var dialer interface {
		DialContext(ctx context.Context, network, address string) (net.Conn, error)
	} = &net.Dialer{}
	if port == l.tlsPort {
		dialer = &tls.Dialer{Config: &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}}
	}
	conn, err := dialer.DialContext(ctx, "tcp", s.EmailServer)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	client, err := smtp.NewClient(conn, host)
	if err != nil {
		return err
	}
	if offered, _ := client.Extension("STARTTLS"); offered {
		if err := client.StartTLS(&tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}); err != nil {
			return err
		}
	}
	if s.EmailUser != "" {
		if err := client.Auth(smtp.PlainAuth("", s.EmailUser, s.EmailPassword, host)); err != nil {
			return err
		}
	}
	if err := client.Mail(s.EmailFrom); err != nil {
		return err
	}
	for _, to := range s.EmailTo {
		if err := client.Rcpt(to); err != nil {
			return err
		}
	}
	out, err := client.Data()
	if err != nil {
		return err
	}
	if _, err := out.Write(text); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	return client.Quit()
}

// mailOf returns a message with its head.
func mailOf(s *Settings, m *admin.AlertMessage) []byte {
	subject, _, more := strings.Cut(m.Text, "\n")
	if more {
		subject = fmt.Sprintf("%s (and %d more)", subject, len(m.Alerts)-1)
	}
	var b bytes.Buffer
	for _, line := range [][2]string{
		{"From", s.EmailFrom},
		{"To", strings.Join(s.EmailTo, ", ")},
		{"Subject", mime.QEncoding.Encode("utf-8", m.Box+": "+oneLine(subject))},
		{"Date", m.Time.Format(time.RFC1123Z)},
		{"MIME-Version", "1.0"},
		{"Content-Type", "text/plain; charset=utf-8"},
		{"Content-Transfer-Encoding", "8bit"},
		{"Auto-Submitted", "auto-generated"},
	} {
		fmt.Fprintf(&b, "%s: %s\r\n", line[0], line[1])
	}
	fmt.Fprintf(&b, "\r\n%s\r\n\r\n%s, %s\r\n", strings.ReplaceAll(m.Text, "\n", "\r\n"), m.Box, m.Time.Format(time.RFC3339))
	return b.Bytes()
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
