package appliance

import (
	"net/http"
	"strings"
	"testing"
)

func TestThePageIsServedBesideTheInterfaces(t *testing.T) {
	h := runBox(t, nil)
	browser, program := h.visitor("Accept", "text/html,*/*"), h.visitor()
	for name, test := range map[string]struct {
		who          *visitor
		method, path string
		status       int
		want         string
	}{
		"the page":               {browser, "GET", "/", 200, "<"},
		"an address of the page": {browser, "GET", "/models/cat", 200, "<"},
		"for a program":          {program, "GET", "/", 200, `"name":`},
		"a file that is not":     {browser, "GET", "/assets/none.js", 404, "Not Found"},
		"an interface":           {browser, "GET", "/api/v1/none", 401, "setup_required"},
		"posted":                 {browser, "POST", "/models", 401, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if status, text := test.who.ask(test.method, test.path, nil, nil); status != test.status || !strings.Contains(text, test.want) {
				t.Errorf("%d %.200s", status, text)
			}
		})
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.base+"/settings", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html")
	res, err := browser.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if policy := res.Header.Get("Content-Security-Policy"); res.StatusCode != http.StatusOK ||
		!strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") ||
		res.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
}
