package main

import (
	"net"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/appliance"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
)

// TestHintsLeadToTheBoxThatPrintsThem holds the commands against the box's own port and data folder.
func TestHintsLeadToTheBoxThatPrintsThem(t *testing.T) {
	for _, test := range []struct {
		name    string
		welcome appliance.Welcome
		server  string
		want    []string
		never   string
	}{
		{
			"the usual port",
			appliance.Welcome{URLs: []string{cli.DefaultServer}},
			cli.DefaultServer,
			[]string{"bin/edgewise model list", "cat /box/admin.token"},
			"--server",
		},
		{
			"another port",
			appliance.Welcome{URLs: []string{"http://127.0.0.1:9000"}},
			"http://127.0.0.1:9000",
			[]string{"bin/edgewise --server http://127.0.0.1:9000 model list", "bin/edgewise --server http://127.0.0.1:9000 demo face"},
			"FLAG",
		},
		{"a key", appliance.Welcome{URLs: []string{cli.DefaultServer}, Key: "ek_1"}, cli.DefaultServer, []string{"Bearer ek_1"}, "admin.token"},
		{
			"no accounts",
			appliance.Welcome{URLs: []string{cli.DefaultServer}, Open: true},
			cli.DefaultServer,
			[]string{"curl " + cli.DefaultServer + "/metrics"},
			"Bearer",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var b strings.Builder
			demoHint(&b, test.welcome, test.server, "/box/admin.token")
			for _, part := range test.want {
				if !strings.Contains(b.String(), part) {
					t.Errorf("%q is not in:\n%s", part, b.String())
				}
			}
			if strings.Contains(b.String(), test.never) {
				t.Errorf("%q is in:\n%s", test.never, b.String())
			}
		})
	}
}

func TestTheBoxOfThisMachine(t *testing.T) {
	for _, test := range []struct{ address, mode, want string }{
		{"127.0.0.1:8000", config.TLSAuto, "http://127.0.0.1:8000"},
		{"[::]:9000", config.TLSAuto, "http://127.0.0.1:9000"},
		{"0.0.0.0:9000", config.TLSRequire, "https://127.0.0.1:9000"},
		{"192.0.2.1:9000", config.TLSAuto, "https://192.0.2.1:9000"},
		{"[::1]:9000", config.TLSOff, "http://[::1]:9000"},
	} {
		c := config.Default()
		c.TLS.Mode = test.mode
		address, err := net.ResolveTCPAddr("tcp", test.address)
		if err != nil {
			t.Fatal(err)
		}
		if got := local(c, address); got != test.want {
			t.Errorf("%s, tls %s: %s, want %s", test.address, test.mode, got, test.want)
		}
	}
}
