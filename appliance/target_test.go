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
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = fmt.Fprintf(c, "POST /api/v1/users# HTTP/1.1\r\nHost: localhost\r\nAuthorization: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", key, len(body), body)
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
