package appliance

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/config"
)

// A change that the router finds and authorization does not would leave no line in the audit log.
func TestAFragmentDoesNotHideAChangeFromTheAuditLog(t *testing.T) {
	h := runBox(t, nil)
	anna := h.claim()
	key := h.key(anna, admin.KeyNew{Name: "setup", Rights: []string{"admin"}}).header.Get("Authorization")
	const body = `{"name":"mallory","role":"admin","password":"correct horse battery"}`
	c, err := net.Dial("tcp", strings.TrimPrefix(h.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = fmt.Fprintf(c,
		"POST /api/v1/users# HTTP/1.1\r\nHost: localhost\r\nAuthorization: %s\r\nContent-Type: "+
			"application/json\r\nContent-Length: %d\r\n\r\n%s", key, len(body), body)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("POST /api/v1/users#: %d, want 400", res.StatusCode)
	}
	if _, users := anna.ask("GET", "/api/v1/users", nil, nil); strings.Contains(users, "mallory") {
		_, lines := anna.ask("GET", "/api/v1/audit?action=user.create", nil, nil)
		t.Errorf("a user was made; the audit log says %s", lines)
	}
}

func TestHostNames(t *testing.T) {
	for _, test := range []struct {
		auth   string
		hosts  []string
		host   string
		status int
	}{
		{config.AuthAccounts, nil, "models.kserve.svc.cluster.local", 200},
		{config.AuthAccounts, nil, "triton_server:8000", 200},
		{config.AuthAccounts, nil, "[::1", 400},
		{config.AuthOpen, nil, "rebound.example", 403},
		{config.AuthOpen, nil, "localhost", 200},
		{config.AuthOpen, []string{"*"}, "triton_server:8000", 200},
	} {
		t.Run(test.auth+" "+test.host, func(t *testing.T) {
			h := runBox(t, func(c *config.Config) { c.Auth, c.HTTP.AllowedHosts = test.auth, test.hosts })
			c, err := net.Dial("tcp", strings.TrimPrefix(h.base, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			_, _ = fmt.Fprintf(c, "GET /api/v1/setup HTTP/1.1\r\nHost: %s\r\n\r\n", test.host)
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != test.status {
				t.Errorf("answer %d, want %d", res.StatusCode, test.status)
			}
		})
	}
}

// A page of another origin may use the key that names its origin, and no session.
func TestAPageOfAnotherOriginNeedsAKeyThatNamesIt(t *testing.T) {
	const shop = "https://shop.example"
	h := runBox(t, nil)
	anna := h.claim()
	key := h.key(anna, admin.KeyNew{Name: "shop", Rights: []string{"operate"}, Origins: []string{shop}})
	other := h.key(anna, admin.KeyNew{Name: "other", Rights: []string{"operate"}})
	for name, test := range map[string]struct {
		v      *visitor
		origin string
		status int
	}{
		"the key that names it": {key, shop, 404}, "another key": {other, shop, 403}, "a session": {anna, shop, 403},
		"another origin": {key, "https://evil.example", 403}, "no page": {other, "", 404},
	} {
		v := &visitor{h, test.v.client, test.v.header.Clone()}
		if test.origin != "" {
			v.header.Set("Origin", test.origin)
		}
		if status, text := v.ask("POST", "/api/v1/models/none/rollback", nil, nil); status != test.status {
			t.Errorf("%s: %d %s, want %d", name, status, text, test.status)
		}
	}
}
