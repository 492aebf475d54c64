package model

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

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
			private, err := p.PrivateKey(key)
			if err != nil {
				return err
			}
			digest, err := p.Fetch(cmd.Context(), &fetch.Request{
				Command: fetch.Sign, URL: client.RegistryScheme + strings.TrimPrefix(args[0], client.RegistryScheme), Key: private,
			})
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
