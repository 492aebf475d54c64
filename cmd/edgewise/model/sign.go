package model

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"aead.dev/minisign"
	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/api/fetch"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
)

func (p commands) sign() *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:   "sign REGISTRY/REPOSITORY:TAG --key FILE",
		Short: "Sign a published version with a key of minisign",
		Long: "Sign fetches the manifest of a version from its registry, signs it with a private key of minisign, and stores the signature\n" +
			"beside it. It asks no box: it runs where the key is, with the credentials in Docker's config.json. The password of the key,\n" +
			"where it has one, is the first line of standard input.",
		Args: cli.Arguments("REFERENCE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			private, err := p.privateKey(key)
			if err != nil {
				return err
			}
			digest, err := p.signAt(cmd.Context(), client.RegistryScheme+strings.TrimPrefix(args[0], client.RegistryScheme), private)
			if err != nil {
				return err
			}
			return p.Print(map[string]string{"digest": digest}, func(w io.Writer) { fmt.Fprintf(w, "%s (%s) is signed\n", args[0], digest) })
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "file with the private key, as \"minisign -G\" writes it")
	_ = cmd.MarkFlagRequired("key") // the flag is there
	return cmd
}

// maxPassword bounds the line with the password of a key.
const maxPassword = 4 << 10

// privateKey reads a private key, and its password where it has one.
func (p commands) privateKey(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", cli.Usagef("--key: %w", err)
	}
	if !minisign.IsEncrypted(text) {
		return string(text), nil // the program looks at it
	}
	password, err := bufio.NewReader(io.LimitReader(p.In, maxPassword)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", cli.Usagef("the password of the key: %w", err)
	}
	private, err := minisign.DecryptKey(strings.TrimRight(password, "\r\n"), text)
	if err != nil {
		return "", cli.Usagef("--key %s: it is no private key of minisign, or the password is another one", path)
	}
	open, err := private.MarshalText()
	return string(open), err
}

// signAt lets the program that knows registries sign what stands at a URL.
func (p commands) signAt(ctx context.Context, url, key string) (digest string, err error) {
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
		return "", edgewise.Errorf("model.sign", edgewise.Unsupported, "the program edgewise-fetch cannot be started: %w", err)
	}
	failed := fetch.NewClient(to, from).Do(&fetch.Request{Command: fetch.Sign, URL: url, Key: key}, func(r *fetch.Reply) error {
		if r.Digest != "" {
			digest = r.Digest
		}
		return nil
	})
	_ = to.Close()
	ended := program.Wait()
	if failed != nil {
		return "", edgewise.Errorf("model.sign", edgewise.Unavailable, "%s: %w", url, failed)
	}
	return digest, ended
}
