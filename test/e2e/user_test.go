package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/appliance/access"
	"github.com/edgewise-ai/edgewise/test/real"
)

// TestAUserIsMadeAndGetsAPasswordAtTheBoxItself does what the page's log-in says to who has forgotten a password.
func TestAUserIsMadeAndGetsAPasswordAtTheBoxItself(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := serveReady(t, dir, "--auth", "accounts")
	token, err := os.ReadFile(filepath.Join(dir, access.TokenFile))
	if err != nil {
		t.Fatal(err)
	}
	typed := func(input string, arguments ...string) (string, int) {
		cmd := exec.CommandContext(t.Context(), real.Program(t),
			append([]string{"--server", b.url, "--token", strings.TrimSpace(string(token))}, arguments...)...)
		cmd.Stdin = strings.NewReader(input)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		_ = cmd.Run()
		return out.String(), cmd.ProcessState.ExitCode()
	}
	for _, step := range []struct {
		input string
		args  []string
		code  int
		want  string
	}{
		{"correct staple\n", []string{"user", "add", "anna", "--role", "admin"}, 0, `user "anna": added with the role admin`},
		{"correct staple\n", []string{"user", "add", "anna"}, 4, "anna"},
		{"short\n", []string{"user", "password", "anna"}, 4, "characters"},
		{"", []string{"user", "password", "anna"}, 2, "standard input has no password"},
		{"another staple", []string{"user", "password", "anna"}, 0, `user "anna": the password is set`},
		{"another staple", []string{"user", "password", "bert"}, 3, "bert"},
		{"", []string{"user", "list"}, 0, "anna  admin  enabled"},
		{"", []string{"user"}, 2, "password"},
	} {
		if out, code := typed(step.input, step.args...); code != step.code || !strings.Contains(out, step.want) {
			t.Errorf("edgewise %s: exit code %d, %q; want %d and %q", strings.Join(step.args, " "), code, out, step.code, step.want)
		}
	}
}
