package appliance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/appliance/access"
	"github.com/edgewise-ai/edgewise/appliance/auth"
	"github.com/edgewise-ai/edgewise/appliance/config"
)

const forwardedFor = "X-Forwarded-For"

// TestATrustedProxyNamesItsClients asks a box as a proxy on the machine itself does.
func TestATrustedProxyNamesItsClients(t *testing.T) {
	for _, test := range []struct {
		name, seen string
		trusted    []string
		token      int // the status for the local token
		second     int // the status of a login of another client, after one that has failed
	}{
		{"trusted", "198.51.100.1", []string{"127.0.0.0/8", "10.0.0.0/8"}, 403, 401},
		{"not trusted", "127.0.0.1", nil, 200, 429},
		{"another is trusted", "127.0.0.1", []string{"10.0.0.0/8"}, 200, 429},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := runBox(t, func(c *config.Config) { c.HTTP.TrustedProxies = test.trusted })
			anna := h.claim()
			token, err := os.ReadFile(filepath.Join(h.app.config.DataDir, access.TokenFile))
			if err != nil {
				t.Fatal(err)
			}
			client := h.visitor("Authorization", "Bearer "+strings.TrimSpace(string(token)), forwardedFor, "127.0.0.1, 198.51.100.1, 10.1.2.3")
			if status, text := client.ask("GET", "/api/v1/users", nil, nil); status != test.token {
				t.Errorf("the local token: %d %s, want %d", status, text, test.token)
			}
			wrong := admin.Login{User: "eve", Password: "wrong wrong wrong"}
			login := func(client string) int {
				status, _ := h.visitor(forwardedFor, client).ask("POST", "/api/v1/session", wrong, nil)
				return status
			}
			if status := login("198.51.100.1"); status != 401 {
				t.Errorf("a login: %d, want 401", status)
			}
			second := login("198.51.100.2")
			for n := 3; second != test.second && n <= 1+auth.TriesPerMinute; n++ { // on a busy machine they come a second apart
				second = login(fmt.Sprintf("198.51.100.%d", n))
			}
			if second != test.second {
				t.Errorf("a login of another client: %d, want %d", second, test.second)
			}
			loader := h.key(anna, admin.KeyNew{Name: "loader", Rights: []string{"operate"}}).header.Get("Authorization")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", loader, forwardedFor, "198.51.100.1")
			load := &inference.RepositoryModelLoadRequest{ModelName: "none"}
			if _, err := h.callers(insecure.NewCredentials()).RepositoryModelLoad(ctx, load); err == nil {
				t.Error("a model that does not exist was loaded")
			}
			var page admin.AuditPage
			anna.ask("GET", "/api/v1/audit", nil, &page)
			for _, action := range []string{"session.login", "model.load"} {
				if !slices.ContainsFunc(page.Entries, func(e admin.AuditEntry) bool { return e.Action == action && e.Address == test.seen }) {
					t.Errorf("no %s from %s in the audit log: %+v", action, test.seen, page.Entries)
				}
			}
		})
	}
}
