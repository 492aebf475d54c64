package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"

	"aead.dev/minisign"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/fetch"
)

// maxPassword bounds the line with the password of a key.
const maxPassword = 4 << 10

// PrivateKey reads a private key, and its password where it has one.
func (p *Program) PrivateKey(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", Usagef("--key: %w", err)
	}
	if !minisign.IsEncrypted(text) {
		return string(text), nil // the program looks at it
	}
	password, err := bufio.NewReader(io.LimitReader(p.In, maxPassword)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", Usagef("the password of the key: %w", err)
	}
	private, err := minisign.DecryptKey(strings.TrimRight(password, "\r\n"), text)
	if err != nil {
		return "", Usagef("--key %s: it is no private key of minisign, or the password is another one", path)
	}
	open, err := private.MarshalText()
	return string(open), err
}

// Fetch lets the program that knows stores and registries answer a request on this machine, with the credentials of the environment. It
// returns the digest of what was sent, "" where the place has none.
func (p *Program) Fetch(ctx context.Context, r *fetch.Request) (digest string, err error) {
	const op = "cli.Fetch"
	program := exec.CommandContext(ctx, fetch.Program())
	program.Env, program.Stderr = p.Environment, p.Err
	to, err := program.StdinPipe()
	if err != nil {
		return "", err
	}
	from, err := program.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := program.Start(); err != nil {
		return "", edgewise.Errorf(op, edgewise.Unsupported, "the program edgewise-fetch cannot be started: %w", err)
	}
	failed := fetch.NewClient(to, from).Do(r, func(r *fetch.Reply) error {
		if r.Digest != "" {
			digest = r.Digest
		}
		return nil
	})
	_ = to.Close()
	ended := program.Wait()
	if failed != nil {
		return "", edgewise.Errorf(op, edgewise.Unavailable, "%s: %w", r.URL, failed)
	}
	return digest, ended
}
