package appliance

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/access"
	"github.com/edgewise-ai/edgewise/appliance/auth"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/test/journal"
)

// running is a running box and a way to ask it.
type running struct {
	t       *testing.T
	app     *App
	base    string
	grpc    string
	welcome Welcome
	log     *journal.Journal
}

// runBox runs a box with accounts until the test ends.
func runBox(t *testing.T, change func(*config.Config)) *running {
	t.Helper()
	return runBoxWith(t, change, func(*App) {})
}

// runBoxWith is runBox with something done to the box before it runs.
func runBoxWith(t *testing.T, change func(*config.Config), before func(*App)) *running {
	t.Helper()
	c := testConfig(t)
	c.Auth = config.AuthAccounts
	if change != nil {
		change(&c)
	}
	h := &running{t: t}
	h.app, h.log = newApp(t, c)
	before(h.app)
	ctx, stop := context.WithCancel(context.Background())
	ended, welcome := make(chan error, 1), make(chan Welcome, 1)
	go func() {
		ended <- h.app.Run(ctx, nil, Hooks{
			ListeningGRPC: func(a net.Addr) { h.grpc = a.String() },
			Welcome:       func(w Welcome) { welcome <- w },
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(c.DataDir, access.TokenFile)); err == nil {
			t.Error("the local token is left behind")
		}
	})
	h.welcome = <-welcome
	h.base = h.welcome.URLs[0]
	return h
}

// visitor asks a running with credentials.
type visitor struct {
	running *running
	client  *http.Client
	header  http.Header
}

func (h *running) visitor(header ...string) *visitor {
	v := &visitor{h, &http.Client{Transport: conform(h.t,
		&http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}})}, http.Header{}}
	for i := 0; i < len(header); i += 2 {
		v.header.Set(header[i], header[i+1])
	}
	h.t.Cleanup(v.client.CloseIdleConnections)
	return v
}

// ask sends a request, with body as JSON unless it is nil, and reads the answer into result unless that is nil.
func (v *visitor) ask(method, path string, body, result any) (status int, text string) {
	v.running.t.Helper()
	var in io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			v.running.t.Fatal(err)
		}
		in = bytes.NewReader(text)
	}
	req, err := http.NewRequest(method, v.running.base+path, in)
	if err != nil {
		v.running.t.Fatal(err)
	}
	req.Header = v.header.Clone()
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := v.client.Do(req)
	if err != nil {
		v.running.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = res.Body.Close() }()
	for _, c := range res.Cookies() {
		v.header.Set("Cookie", c.Name+"="+c.Value)
	}
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		v.running.t.Fatalf("%s %s: %v", method, path, err)
	}
	if result != nil {
		if err := json.Unmarshal(answer, result); err != nil {
			v.running.t.Fatalf("%s %s: %d %s: %v", method, path, res.StatusCode, answer, err)
		}
	}
	return res.StatusCode, string(answer)
}

const anna = "correct horse battery"

// claim makes the first admin and returns her with her session.
func (h *running) claim() *visitor {
	h.t.Helper()
	v := h.visitor()
	var s admin.Session
	if status, text := v.ask("POST", "/api/v1/setup/claim", admin.Claim{
		Code: h.welcome.ClaimCode, User: "anna",
		Password: anna,
	}, &s); status != 200 || !s.Authenticated || s.CSRF == "" {
		h.t.Fatalf("claim: %d %s", status, text)
	}
	v.header.Set("X-CSRF-Token", s.CSRF)
	return v
}

// login makes a user with a role and logs in.
func (h *running) login(by *visitor, role string) *visitor {
	h.t.Helper()
	if status, text := by.ask("POST", "/api/v1/users", admin.UserNew{Name: role, Role: role, Password: "a staple for " +
		role[:2]}, nil); status != 201 {
		h.t.Fatalf("user: %d %s", status, text)
	}
	v := h.visitor()
	var s admin.Session
	if status, text := v.ask("POST", "/api/v1/session", admin.Login{User: role, Password: "a staple for " + role[:2]}, &s); status != 200 {
		h.t.Fatalf("login: %d %s", status, text)
	}
	v.header.Set("X-CSRF-Token", s.CSRF)
	return v
}

// key makes a key and returns who has it.
func (h *running) key(by *visitor, n admin.KeyNew) *visitor {
	h.t.Helper()
	var made admin.KeySecret
	if status, text := by.ask("POST", "/api/v1/keys", n, &made); status != 201 {
		h.t.Fatalf("key: %d %s", status, text)
	}
	return h.visitor("Authorization", "Bearer "+made.Secret)
}

// publicRoutes is the short list of what needs no credentials, beside the files of the page.
var publicRoutes = []string{
	"GET /", "GET /ping",
	"GET /v2/health/live", "GET /v2/health/ready", "GET /api/v1/openapi.yaml", "GET /api/v1/setup", "POST /api/v1/setup/claim",
	"GET /api/v1/session", "POST /api/v1/session", "GET /api/v1/tls/authority", "OPTIONS /api/v1/uploads",
	"GET /api/v1/inference.yaml", "GET /api/v1/grpc_service.proto", "GET /api/v1/model_config.proto",
}

// filled replaces the parameters of a path.
func filled(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		name, ok := strings.CutPrefix(p, ":")
		if !ok {
			continue
		}
		name, verb, _ := strings.Cut(name, ":")
		parts[i] = "none"
		if strings.HasPrefix(name, "version") || name == "number" {
			parts[i] = "1"
		}
		if verb != "" {
			parts[i] += ":" + verb
		}
	}
	return strings.Join(parts, "/")
}

func TestEveryRouteButAFewIsPrivate(t *testing.T) {
	h := runBox(t, nil)
	h.claim()
	nobody := h.visitor()
	private := 0
	for _, r := range h.app.rest.Routes() {
		if slices.Contains(publicRoutes, r.Method+" "+r.Path) {
			continue
		}
		asked := []string{r.Method}
		if r.Method == "GET" {
			asked = append(asked, "HEAD")
		}
		for _, method := range asked {
			status, text := nobody.ask(method, filled(r.Path), nil, nil)
			reason := method == "HEAD" || r.Fault != nil || strings.Contains(text, `"reason":"login_required"`)
			if status != http.StatusUnauthorized || !reason {
				t.Errorf("%s %s without credentials: %d %s", method, r.Path, status, text)
			}
		}
		private++
	}
	for _, path := range []string{"/api/v1/none", "/api", "/v2/none/none/none", "/v2/models/cat/infer/more"} {
		if status, text := nobody.ask("GET", path, nil, nil); status != http.StatusUnauthorized {
			t.Errorf("GET %s, which is no route: %d %s", path, status, text)
		}
	}
	if private < 50 {
		t.Errorf("only %d routes were asked: the walk is broken", private)
	}
}

func TestRolesEndWhereTheyShould(t *testing.T) {
	h := runBox(t, nil)
	admin := h.claim()
	operator, viewer := h.login(admin, "operator"), h.login(admin, "viewer")
	for _, test := range []struct {
		method, path string
		body         any
		viewer       int
		operator     int
		admin        int
	}{
		{"GET", "/api/v1/models", nil, 200, 200, 200},
		{"GET", "/api/v1/system", nil, 200, 200, 200},
		{"GET", "/metrics", nil, 200, 200, 200},
		{"POST", "/v2/models/none/infer", struct{}{}, 400, 400, 400},
		{"DELETE", "/api/v1/models/none", nil, 403, 404, 404},
		{"POST", "/api/v1/models/none/rollback", nil, 403, 404, 404},
		{"PUT", "/api/v1/models/none/labels/live", map[string]int{"version": 1}, 403, 404, 404},
		{"POST", "/v2/repository/models/none/load", nil, 403, 400, 400},
		{"GET", "/api/v1/users", nil, 403, 403, 200},
		{"GET", "/api/v1/keys", nil, 403, 403, 200},
		{"GET", "/api/v1/audit", nil, 403, 403, 200},
		{"PATCH", "/api/v1/settings", map[string]string{"name": "shed"}, 403, 403, 200},
		{"DELETE", "/api/v1/tls", nil, 403, 403, 200},
		{"POST", "/v2/logging", struct{}{}, 403, 403, 200},
	} {
		for who, want := range map[*visitor]int{viewer: test.viewer, operator: test.operator, admin: test.admin} {
			name := map[*visitor]string{viewer: "viewer", operator: "operator", admin: "admin"}[who]
			if status, text := who.ask(test.method, test.path, test.body, nil); status != want {
				t.Errorf("%s: %s %s: %d %s, want %d", name, test.method, test.path, status, text, want)
			}
		}
	}
}

// TestNoRoleDoesMoreThanItMay walks the router: what a role has no right to is denied at every route, and what it may look at is not.
func TestNoRoleDoesMoreThanItMay(t *testing.T) {
	h := runBox(t, nil)
	anna := h.claim()
	for role, rights := range map[string]edgewise.Rights{
		"viewer":   edgewise.Read | edgewise.Infer,
		"operator": edgewise.Read | edgewise.Infer | edgewise.Operate,
	} {
		who := h.login(anna, role)
		denied, looked := 0, 0
		for _, r := range h.app.rest.Routes() {
			if r.Public || r.Rights == 0 {
				continue
			}
			if r.Rights&rights == 0 {
				status, text := who.ask(r.Method, filled(r.Path), struct{}{}, nil)
				if status != http.StatusForbidden || strings.Contains(text, "confirm_required") {
					t.Errorf("%s: %s %s: %d %s, want 403", role, r.Method, r.Path, status, text)
				}
				denied++
			} else if r.Method == "GET" && r.Path != "/api/v1/events" { // which does not end
				if status, text := who.ask("GET", filled(r.Path), nil, nil); status == http.StatusForbidden || status == http.StatusUnauthorized {
					t.Errorf("%s: GET %s: %d %s", role, r.Path, status, text)
				}
				looked++
			}
		}
		t.Logf("%s: denied at %d routes, let look at %d", role, denied, looked)
		if denied < 20 || looked < 30 {
			t.Errorf("%s was denied at %d routes and let look at %d: the walk is broken", role, denied, looked)
		}
	}
}

func TestACookieAloneChangesNothing(t *testing.T) {
	h := runBox(t, nil)
	anna := h.claim()
	for _, test := range []struct {
		name   string
		change func(http.Header)
		status int
		reason string
	}{
		{"no CSRF token", func(h http.Header) { h.Del("X-CSRF-Token") }, 403, "csrf"},
		{"another CSRF token", func(h http.Header) { h.Set("X-CSRF-Token", strings.Repeat("0", 32)) }, 403, "csrf"},
		{"another site", func(h http.Header) { h.Set("Sec-Fetch-Site", "cross-site") }, 401, "login_required"},
		{"another site of the same domain", func(h http.Header) { h.Set("Sec-Fetch-Site", "same-site") }, 401, "login_required"},
		{"another origin", func(h http.Header) { h.Set("Origin", "http://evil.example") }, 403, ""},
		{"nothing wrong", func(h http.Header) { h.Set("Sec-Fetch-Site", "same-origin") }, 200, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := h.visitor()
			v.header = anna.header.Clone()
			test.change(v.header)
			status, text := v.ask("PATCH", "/api/v1/settings", map[string]string{"name": "shed"}, nil)
			if status != test.status || !strings.Contains(text, test.reason) {
				t.Errorf("%d %s", status, text)
			}
		})
	}
}

func TestTheCookieIsForTheBrowserAlone(t *testing.T) {
	h := runBox(t, func(c *config.Config) { c.TLS.Mode = config.TLSRequire })
	body, _ := json.Marshal(admin.Claim{Code: h.welcome.ClaimCode, User: "anna", Password: anna})
	res, err := h.visitor().client.Post(h.base+"/api/v1/setup/claim", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	cookie := strings.ToLower(res.Header.Get("Set-Cookie"))
	for _, want := range []string{"__host-edgewise=", "httponly", "secure", "samesite=strict", "path=/"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("the cookie %q lacks %s", cookie, want)
		}
	}
}

func TestKeysAreBoundToTheirModels(t *testing.T) {
	h := runBox(t, nil)
	anna := h.claim()
	camera := h.key(anna, admin.KeyNew{Name: "camera", Rights: []string{"infer", "read"}, Models: []string{"face*"}})
	for path, want := range map[string]int{
		"/v2": 200, "/v2/models/face_2": 404, "/v2/models/f%61ce_2": 404, "/v2/models/text": 403,
		"/v2/models/t%65xt": 403, "/v2/models/stats": 403, "/api/v1/models": 403, "/metrics": 403, "/v2/health/ready": 200,
		"/api/v1/session": 200, "/api/v1/users": 403,
	} {
		if status, text := camera.ask("GET", path, nil, nil); status != want {
			t.Errorf("GET %s: %d %s, want %d", path, status, text, want)
		}
	}
	once := h.key(anna, admin.KeyNew{Name: "slow", Rights: []string{"read"}, Rate: 0.01})
	if status, _ := once.ask("GET", "/v2", nil, nil); status != 200 {
		t.Error(status)
	}
	if status, text := once.ask("GET", "/v2", nil, nil); status != http.StatusTooManyRequests || !strings.Contains(text, "rate_limited") {
		t.Errorf("%d %s", status, text)
	}
}

func TestAPersonAsksAFewThingsAtATime(t *testing.T) {
	h := runBox(t, nil)
	anna := h.claim()
	release := make(chan struct{})
	var asking sync.WaitGroup
	for range auth.AskTogether {
		asking.Go(func() {
			for anna.holds(t, h.base+"/v2/models/none/infer", release) == http.StatusTooManyRequests { // the one below was there before it
			}
		})
	}
	// The caller is decided before the body is read, so that requests whose bodies are on their way count.
	limited := func() bool {
		status, text := anna.ask("POST", "/v2/models/none/infer", struct{}{}, nil)
		return status == http.StatusTooManyRequests && strings.Contains(text, "8 requests in progress")
	}
	eventually(t, "the limit of a person", limited)
	if status, text := anna.ask("GET", "/api/v1/models", nil, nil); status != 200 {
		t.Errorf("looking at models: %d %s", status, text)
	}
	camera := h.key(anna, admin.KeyNew{Name: "camera", Rights: []string{"infer"}})
	if status, text := camera.ask("POST", "/v2/models/none/infer", struct{}{}, nil); status != http.StatusBadRequest {
		t.Errorf("a key beside a busy person: %d %s", status, text)
	}
	close(release)
	asking.Wait()
	eventually(t, "the limit to be over", func() bool { return !limited() })
}

// pending is a body of one byte that ends when the channel is closed.
type pending struct {
	release <-chan struct{}
	begun   bool
}

// Read returns the byte, and then waits for the end.
func (p *pending) Read(to []byte) (int, error) {
	if !p.begun {
		p.begun = true
		return copy(to, "{"), nil
	}
	<-p.release
	return 0, io.EOF
}

// holds sends a request whose body ends when release is closed, and returns the status of the answer.
func (v *visitor) holds(t *testing.T, address string, release <-chan struct{}) int {
	req, err := http.NewRequest(http.MethodPost, address, &pending{release: release})
	if err != nil {
		t.Error(err)
		return 0
	}
	req.Header = v.header.Clone()
	req.ContentLength = -1 // of a length that is known, the client would send the headers with the first bytes of the body
	res, err := v.client.Do(req)
	if err != nil {
		t.Error(err)
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// eventually calls ok until it is true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestWhatChangesIsInTheAuditLog(t *testing.T) {
	h := runBox(t, nil)
	anna := h.claim()
	h.login(anna, "viewer").ask("DELETE", "/api/v1/models/cat", nil, nil)
	h.visitor().ask("POST", "/api/v1/session", admin.Login{User: "eve", Password: "wrong wrong wrong"}, nil)
	var page admin.AuditPage
	anna.ask("GET", "/api/v1/audit", nil, &page)
	var got []string
	for _, e := range slices.Backward(page.Entries) {
		failed := ""
		if e.Error != "" {
			failed = " failed"
		}
		got = append(got, e.Actor+" "+e.Action+" "+e.Target+failed)
	}
	want := []string{
		"person:anna box.claim ", "person:anna user.create viewer", "person:viewer session.login ",
		"person:viewer model.delete cat failed", "person:eve session.login  failed",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	var v admin.AuditVerification
	if anna.ask("GET", "/api/v1/audit/verification", nil, &v); !v.Whole || v.Entries != uint64(len(want)) {
		t.Errorf("%+v", v)
	}
	for _, text := range []string{anna.header.Get("Cookie"), "wrong wrong", "correct horse"} {
		if strings.Contains(h.log.String(), text) {
			t.Errorf("the log holds %q", text)
		}
	}
}

func TestTheLocalTokenOpensTheBox(t *testing.T) {
	h := runBox(t, nil)
	text, err := os.ReadFile(filepath.Join(h.app.config.DataDir, access.TokenFile))
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(h.app.config.DataDir, access.TokenFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	local := h.visitor("Authorization", "Bearer "+strings.TrimSpace(string(text)))
	if status, answer := local.ask("GET", "/api/v1/users", nil, nil); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
}

func TestOpenModeLetsEverybodyIn(t *testing.T) {
	h := runBox(t, func(c *config.Config) { c.Auth = config.AuthOpen })
	var s admin.Session
	if h.visitor().ask("GET", "/api/v1/session", nil, &s); s.Auth != "open" || !s.Authenticated || len(s.Rights) != 5 {
		t.Errorf("%+v", s)
	}
	var system admin.System
	if status, _ := h.visitor().ask("GET", "/api/v1/system", nil, &system); status != 200 ||
		!slices.ContainsFunc(system.Warnings, func(w admin.Warning) bool { return w.Code == "auth_open" }) {
		t.Errorf("%d %+v", status, system.Warnings)
	}
}

func TestTheSetupKnowsItsNextStep(t *testing.T) {
	h := runBox(t, nil)
	next := func() string {
		var s admin.Setup
		h.visitor().ask("GET", "/api/v1/setup", nil, &s)
		return s.Next
	}
	if next() != "claim" {
		t.Error(next())
	}
	anna := h.claim()
	for _, step := range []string{"name", "tls", "model"} {
		if next() != step {
			t.Errorf("next is %q, want %q", next(), step)
		}
		for range 2 { // twice is no error
			if status, text := anna.ask("PUT", "/api/v1/setup/steps/"+step, nil, nil); status != 200 {
				t.Errorf("%d %s", status, text)
			}
		}
	}
	if status, _ := anna.ask("PUT", "/api/v1/setup/steps/more", nil, nil); next() != "" || status != 404 {
		t.Errorf("%q, %d", next(), status)
	}
}

func TestSettingsAreCheckedAndKept(t *testing.T) {
	h := runBox(t, nil)
	anna := h.claim()
	var s admin.Settings
	if status, text := anna.ask("PATCH", "/api/v1/settings", map[string]any{"name": "shed", "metrics_public": true},
		&s); status != 200 || s.Name != "shed" {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := h.visitor().ask("GET", "/metrics", nil, nil); status != 200 {
		t.Errorf("public metrics answer %d", status)
	}
	for field, value := range map[string]any{
		"name":                 strings.Repeat("n", maxBoxName+1),
		"session_idle_seconds": minSessionIdle - 1, "session_seconds": maxSession + 1,
	} {
		if status, text := anna.ask("PATCH", "/api/v1/settings", map[string]any{field: value}, nil); status != 400 ||
			!strings.Contains(text, `"field":"`+field+`"`) {
			t.Errorf("%s: %d %s", field, status, text)
		}
	}
	if status, text := anna.ask("PATCH", "/api/v1/settings", map[string]any{"nmae": "x"}, nil); status != 400 {
		t.Errorf("a member that does not exist: %d %s", status, text)
	}
	again := &box{app: h.app, documents: h.app.documents}
	if err := again.load(); err != nil || again.settings.Name != "shed" {
		t.Errorf("after a restart: %+v, %v", again.settings, err)
	}
}
