package alerts

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/activity"
)

// documents keeps documents in memory.
type documents map[string][]byte

func (d documents) View(do func(edgewise.DocumentsTx) error) error   { return do(tx{docs: d}) }
func (d documents) Update(do func(edgewise.DocumentsTx) error) error { return do(tx{docs: d}) }

type tx struct {
	edgewise.DocumentsTx
	docs documents
}

func (t tx) Get(bucket, key string) []byte { return t.docs[bucket+"/"+key] }

func (t tx) Put(bucket, key string, value []byte) error {
	t.docs[bucket+"/"+key] = value
	return nil
}

func newAlerts(docs edgewise.Documents, facts *Facts) (*Alerts, *strings.Builder) {
	logs := &strings.Builder{}
	return New(Config{
		Documents: docs, Facts: func() Facts { return *facts }, Box: func() string { return "hall 3" },
		Logger: slog.New(slog.NewTextHandler(logs, nil)),
	}), logs
}

func requests(model string, answered, failed int, took time.Duration) []activity.Sample {
	var h activity.History
	for i := range answered + failed {
		o := activity.Outcome{Took: took}
		if i >= answered {
			o.Err = edgewise.Errorf("test", edgewise.Internal, "broken")
		}
		h.Note(edgewise.ModelID{Name: model, Version: 1}, o)
	}
	return h.Take()
}

// texts are what is told of a sequence of minutes.
func texts(s *states, rules []admin.AlertRule, minutes ...float64) (list []string) {
	now := time.Unix(1_700_000_000, 0)
	for i, disk := range minutes {
		now = now.Add(time.Minute)
		told, _ := s.evaluate(now, rules, &Facts{Disk: disk}, nil, 5*time.Minute)
		for _, a := range told {
			list = append(list, fmt.Sprintf("%d: %s", i, a.Text))
		}
	}
	return list
}

func TestAnAlertBeginsAfterItsMinutesAndEndsBelowItsBound(t *testing.T) {
	rules := []admin.AlertRule{{Kind: admin.AlertDisk, Above: 90, Minutes: 2}}
	for _, test := range []struct {
		name    string
		minutes []float64
		want    []string
	}{
		{"one minute is not enough", []float64{95, 80, 95, 80}, nil},
		{"begins and ends", []float64{95, 96, 70, 60}, []string{
			"1: Alert: 96 % of the disk are in use (bound 90 %)", "3: Ended: 60 % of the disk are in use (bound 90 %)",
		}},
		{"does not end between the bounds", []float64{95, 95, 85, 70, 85, 70}, []string{"1: Alert: 95 % of the disk are in use (bound 90 %)"}},
		{"does not flap", []float64{95, 89, 95, 89, 95, 89}, nil},
		{"repeats", []float64{95, 95, 95, 95, 95, 95, 95, 95, 95}, []string{
			"1: Alert: 95 % of the disk are in use (bound 90 %)", "6: Alert: 95 % of the disk are in use (bound 90 %)",
		}},
	} {
		if got := texts(newStates(), rules, test.minutes...); strings.Join(got, "\n") != strings.Join(test.want, "\n") {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestEachKindOfRuleLooksAtItsValue(t *testing.T) {
	facts := Facts{
		Disk: 96, Temperatures: map[string]float64{"GPU 0": 91, "CPU": 50},
		Down: map[string]string{"dog": "the file\nis broken"},
	}
	samples := append(requests("cat", 15, 5, 200*time.Millisecond), requests("rare", 1, 3, time.Second)...)
	var got []string
	for _, rule := range []admin.AlertRule{
		{Kind: admin.AlertErrorRate, Above: 20},
		{Kind: admin.AlertErrorRate, Above: 30},
		{Kind: admin.AlertErrorRate, Above: 20, Model: "dog"},
		{Kind: admin.AlertP99, Above: 100, Model: "cat"},
		{Kind: admin.AlertDisk, Above: 95},
		{Kind: admin.AlertTemperature, Above: 85},
		{Kind: admin.AlertModelDown},
	} {
		told, _ := newStates().evaluate(time.Now(), []admin.AlertRule{rule}, &facts, samples, 0)
		for _, a := range told {
			got = append(got, a.Text)
		}
	}
	want := []string{
		"Alert: 25.0 % of the requests to cat fail (bound 20 %)",
		"Alert: p99 latency of cat is 204.8 ms (bound 100 ms)",
		"Alert: 96 % of the disk are in use (bound 95 %)",
		"Alert: GPU 0 has 91 °C (bound 85 °C)",
		"Alert: model dog is down: the file is broken",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

const (
	secretURL      = "https://hooks.example/services/T0-very-secret"
	secretPassword = "mail-very-secret"
)

func change() admin.AlertsChange {
	url, password := secretURL, secretPassword
	return admin.AlertsChange{
		Rules:      []admin.AlertRule{{Kind: admin.AlertDisk, Above: 90, Minutes: 5}, {Kind: admin.AlertModelDown}},
		WebhookURL: &url, EmailServer: "mail.example:587", EmailFrom: "box@example.com",
		EmailTo: []string{"anna@example.com"}, EmailUser: "box", EmailPassword: &password, RepeatSeconds: 3600,
	}
}

func TestSettingsSurviveAndHideTheirSecrets(t *testing.T) {
	docs := documents{}
	a, _ := newAlerts(docs, &Facts{})
	if _, err := a.Set(change()); err != nil {
		t.Fatal(err)
	}
	again, _ := newAlerts(docs, &Facts{})
	shown, err := json.Marshal(again.Get())
	if err != nil || strings.Contains(string(shown), "very-secret") || !strings.Contains(string(shown), `"webhook_host":"hooks.example"`) ||
		!strings.Contains(string(shown), `"email_password_set":true`) || !strings.Contains(string(shown), `"kind":"disk"`) {
		t.Errorf("%s, %v", shown, err)
	}
	if s := again.current(); s.WebhookURL != secretURL || s.EmailPassword != secretPassword {
		t.Error("the secrets are lost")
	}
	c := change()
	c.WebhookURL, c.EmailPassword = nil, nil
	if _, err := again.Set(c); err != nil || again.current().EmailPassword != secretPassword || again.current().WebhookURL != secretURL {
		t.Error("a change without secrets has lost them")
	}
	c.EmailServer = "mail.elsewhere.example:587"
	if got, err := again.Set(c); err != nil || got.Targets.EmailPassword {
		t.Error("another server gets the password")
	}
	docs["box/alerts"] = []byte(`{"rules":[{"kind":"none"}]}`)
	if damaged, logs := newAlerts(docs, &Facts{}); len(damaged.Get().Rules) != 0 || !strings.Contains(logs.String(), "damaged") {
		t.Errorf("damaged settings: %+v, log %s", damaged.Get(), logs)
	}
}

func TestSettingsOutOfBoundsAreInvalid(t *testing.T) {
	a, _ := newAlerts(documents{}, &Facts{})
	text := func(s string) *string { return &s }
	for field, alter := range map[string]func(c *admin.AlertsChange){
		"rules":          func(c *admin.AlertsChange) { c.Rules[0].Kind = "disc" },
		"repeat_seconds": func(c *admin.AlertsChange) { c.RepeatSeconds = 5 },
		"webhook_url":    func(c *admin.AlertsChange) { c.WebhookURL = text("file:///etc/passwd") },
		"email_server":   func(c *admin.AlertsChange) { c.EmailServer = "mail" },
		"email_from":     func(c *admin.AlertsChange) { c.EmailFrom = "box@example.com\r\nBcc: eve@example.com" },
		"email_to":       func(c *admin.AlertsChange) { c.EmailTo = []string{"Anna <anna@example.com>"} },
		"email_password": func(c *admin.AlertsChange) { c.EmailPassword = text("a\r\nb") },
	} {
		c := change()
		alter(&c)
		_, err := a.Set(c)
		if about, ok := errors.AsType[*edgewise.Error](err); !ok || about.Kind != edgewise.Invalid || about.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, r := range []admin.AlertRule{
		{Kind: admin.AlertDisk, Above: 101},
		{Kind: admin.AlertDisk, Above: -1},
		{Kind: admin.AlertDisk, Model: "cat"},
		{Kind: admin.AlertP99, Minutes: -1},
		{Kind: admin.AlertP99, Model: "no/name"},
		{Kind: admin.AlertModelDown, Above: 1},
	} {
		if checkRule(r) == nil {
			t.Errorf("%+v is valid", r)
		}
	}
	if len(a.Get().Rules) != 0 {
		t.Error("a change that is invalid has an effect")
	}
}

func TestAWebhookReceivesWhatBegins(t *testing.T) {
	received := make(chan admin.AlertMessage, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m admin.AlertMessage
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil || r.Header.Get("Content-Type") != "application/json" {
			t.Error(err)
		}
		received <- m
	}))
	defer server.Close()
	facts := Facts{Disk: 97}
	a, _ := newAlerts(documents{}, &facts)
	url := server.URL + "/hook"
	if _, err := a.Set(admin.AlertsChange{Rules: []admin.AlertRule{{Kind: admin.AlertDisk, Above: 90}}, WebhookURL: &url}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { a.Run(ctx); close(done) }()
	a.Minute(nil)
	m := <-received
	if m.Box != "hall 3" || m.Test || len(m.Alerts) != 1 || m.Alerts[0].Kind != admin.AlertDisk || !strings.Contains(m.Text, "97 %") {
		t.Errorf("%+v", m)
	}
	if active := a.Active(); len(active) != 1 || active[0].Ended {
		t.Errorf("active %+v", active)
	}
	stop()
	<-done
}

func TestTheErrorsOfAWebhookDoNotNameIt(t *testing.T) {
	answered := httptest.NewServer(http.RedirectHandler("http://elsewhere.example/", http.StatusFound))
	defer answered.Close()
	for _, url := range []string{answered.URL + "/very-secret", "http://127.0.0.1:1/very-secret"} {
		a, _ := newAlerts(documents{}, &Facts{})
		if _, err := a.Set(admin.AlertsChange{WebhookURL: &url}); err != nil {
			t.Fatal(err)
		}
		results := a.Test(t.Context())
		if len(results) != 1 || results[0].Error == "" || strings.Contains(results[0].Error, "very-secret") {
			t.Errorf("%+v", results)
		}
	}
}

// mailServer accepts mail without TLS, and returns what was said to it.
func mailServer(t *testing.T, extensions ...string) (address string, said func() string) {
	return tlsMailServer(t, nil, "", extensions...)
}

// tlsMailServer is a mailServer that speaks TLS with a configuration: from the first byte or after STARTTLS. nil: never.
func tlsMailServer(t *testing.T, secure *tls.Config, from string, extensions ...string) (address string, said func() string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var all strings.Builder
	var work sync.WaitGroup
	work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if from == "the first byte" {
				conn = tls.Server(conn, secure)
			}
			_, _ = io.WriteString(conn, "220 mail\r\n")
			speak(conn, secure, extensions, func(line string) {
				mu.Lock()
				all.WriteString(line)
				mu.Unlock()
			})
		}
	})
	t.Cleanup(func() { _ = listener.Close(); work.Wait() })
	return listener.Addr().String(), func() string {
		mu.Lock()
		defer mu.Unlock()
		return all.String()
	}
}

func speak(conn net.Conn, secure *tls.Config, extensions []string, note func(string)) {
	defer func() { _ = conn.Close() }()
	answer := func(lines ...string) { _, _ = io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\n") }
	in := bufio.NewReader(conn)
	for body := false; ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		note(line)
		switch {
		case body:
			if body = line != ".\r\n"; !body {
				answer("250 queued")
			}
		case strings.HasPrefix(line, "EHLO"):
			answer(append(append([]string{"250-mail"}, extensions...), "250 AUTH PLAIN")...)
		case line == "STARTTLS\r\n" && secure != nil:
			answer("220 go on")
			speak(tls.Server(conn, secure), nil, []string{"250-SIZE"}, note)
			return
		case strings.HasPrefix(line, "AUTH"):
			answer("235 welcome")
		case line == "DATA\r\n":
			body = true
			answer("354 go on")
		case line == "QUIT\r\n":
			answer("221 bye")
			return
		default:
			answer("250 ok")
		}
	}
}

func TestAMailServerReceivesATest(t *testing.T) {
	address, said := mailServer(t)
	a, _ := newAlerts(documents{}, &Facts{})
	c := change()
	none := ""
	c.WebhookURL, c.EmailServer, c.EmailTo = &none, address, []string{"anna@example.com", "bert@example.com"}
	if _, err := a.Set(c); err != nil {
		t.Fatal(err)
	}
	if results := a.Test(t.Context()); len(results) != 1 || results[0] != (admin.AlertTest{Target: "email"}) {
		t.Fatalf("%+v", results)
	}
	for _, want := range []string{
		"AUTH PLAIN AGJveABtYWlsLXZlcnktc2VjcmV0\r\n", "MAIL FROM:<box@example.com>", "RCPT TO:<anna@example.com>",
		"RCPT TO:<bert@example.com>", "\r\nSubject: hall 3: This is a test of the alerts.\r\n", "\r\nThis is a test of the alerts.\r\n",
	} {
		if !strings.Contains(said(), want) {
			t.Errorf("the server did not hear %q:\n%s", want, said())
		}
	}
}

func TestAPasswordIsNotSentWhereTLSFails(t *testing.T) {
	address, said := mailServer(t, "250-STARTTLS")
	a, _ := newAlerts(documents{}, &Facts{})
	c := change()
	none := ""
	c.WebhookURL, c.EmailServer = &none, address
	if _, err := a.Set(c); err != nil {
		t.Fatal(err)
	}
	if results := a.Test(t.Context()); len(results) != 1 || results[0].Error == "" {
		t.Errorf("%+v", results)
	}
	if strings.Contains(said(), "AUTH") {
		t.Errorf("said %s", said())
	}
}

func TestADeliveryIsTriedAgainWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var times []time.Duration
		began := time.Now()
		a, logs := newAlerts(documents{}, &Facts{})
		url := secretURL
		if _, err := a.Set(admin.AlertsChange{WebhookURL: &url}); err != nil {
			t.Fatal(err)
		}
		a.targets[0].send = func(context.Context, *Settings, admin.AlertMessage) error {
			times = append(times, time.Since(began))
			return fmt.Errorf("post %s: refused", secretURL)
		}
		ctx, stop := context.WithCancel(t.Context())
		go a.Run(ctx)
		for i := range maxQueued + 5 {
			a.targets[0].queue(admin.AlertMessage{Text: fmt.Sprint("message ", i)})
			synctest.Wait()
		}
		time.Sleep(time.Hour)
		stop()
		synctest.Wait()
		for i, want := range []time.Duration{0, 2, 6, 14, 30, 62, 126, 254, 510, 810} {
			if times[i] != want*time.Second {
				t.Errorf("attempt %d after %v, want %v", i+1, times[i], want*time.Second)
			}
		}
		sent := a.Get().Deliveries
		shown := fmt.Sprint(sent, logs)
		if strings.Contains(shown, "very-secret") || !strings.Contains(shown, "refused") {
			t.Errorf("deliveries %s", shown)
		}
		if !strings.Contains(logs.String(), "dropped") || len(sent) > maxDeliveries {
			t.Errorf("%d deliveries, log %s", len(sent), logs)
		}
	})
}

func TestManyAlertsAreOneMessage(t *testing.T) {
	facts := Facts{Down: map[string]string{}}
	for i := range maxStates + 10 {
		facts.Down[fmt.Sprint("m", i)] = "broken"
	}
	a, _ := newAlerts(documents{}, &facts)
	url := secretURL
	if _, err := a.Set(admin.AlertsChange{Rules: []admin.AlertRule{{Kind: admin.AlertModelDown}}, WebhookURL: &url}); err != nil {
		t.Fatal(err)
	}
	a.Minute(nil)
	if n := len(a.targets[0].queued); n != 1 {
		t.Fatalf("%d messages are queued", n)
	}
	if m := <-a.targets[0].queued; len(m.Alerts) != maxTold || !strings.HasSuffix(m.Text, "more") {
		t.Errorf("%d alerts in a message", len(m.Alerts))
	}
	if n := len(a.Active()); n != maxStates {
		t.Errorf("%d alerts", n)
	}
}
