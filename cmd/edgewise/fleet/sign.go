package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"aead.dev/minisign"
	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise/api/fetch"
	"github.com/edgewise-ai/edgewise/appliance/fleet"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
)

func (p commands) sign() *cobra.Command {
	var key, to string
	cmd := &cobra.Command{
		Use:   "sign FILE --key FILE [--to PLACE]",
		Short: "Check a document, sign it with a key of minisign, and publish it",
		Long: "Sign checks a document and writes its signature beside it, as FILE.minisig. With --to it sends both, as fleet.json and\n" +
			"fleet.json.minisig, to oci://registry/name:tag, to a folder of an object store (s3://, gs://, as://) or of this machine, with\n" +
			"the credentials of this machine. It asks no box. The password of the key, where it has one, is the first line of standard input.",
		Args: cli.Arguments("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return cli.Usage(err)
			}
			d, err := fleet.Decode(text)
			if err != nil {
				return err
			}
			open, err := p.PrivateKey(key)
			if err != nil {
				return err
			}
			var private minisign.PrivateKey
			if err := private.UnmarshalText([]byte(open)); err != nil {
				return cli.Usagef("--key %s: it is no private key of minisign", key)
			}
			signature := minisign.Sign(private, text)
			if err := os.WriteFile(args[0]+".minisig", signature, 0o644); err != nil {
				return cli.Usage(err)
			}
			if to != "" {
				if err := p.publish(cmd.Context(), to, text, signature); err != nil {
					return err
				}
			}
			sum := sha256.Sum256(text)
			out := map[string]any{"fleet": d.Fleet, "serial": d.Serial, "digest": "sha256:" + hex.EncodeToString(sum[:])}
			return p.Print(out, func(w io.Writer) { fmt.Fprintf(w, "fleet %s, serial %d is signed\n", d.Fleet, d.Serial) })
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "file with the private key, as \"minisign -G\" writes it")
	cmd.Flags().StringVar(&to, "to", "", "where the document is published")
	_ = cmd.MarkFlagRequired("key") // the flag is there
	return cmd
}

// publish sends a document and its signature to a place.
func (p commands) publish(ctx context.Context, to string, text, signature []byte) error {
	folder := to
	if strings.Contains(to, "://") {
		made, err := os.MkdirTemp("", "edgewise-fleet-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(made) }()
		folder = made
	}
	r := &fetch.Request{Command: fetch.Put, URL: to, Folder: folder, Form: fetch.FormFleet, Config: []byte("{}")}
	for _, f := range []struct {
		name string
		data []byte
	}{{fleet.SignatureFile, signature}, {fleet.File, text}} {
		if err := os.WriteFile(filepath.Join(folder, f.name), f.data, 0o644); err != nil {
			return cli.Usage(err)
		}
		sum := sha256.Sum256(f.data)
		r.Files = append(r.Files, fetch.Entry{Name: f.name, Size: int64(len(f.data)), SHA256: hex.EncodeToString(sum[:])})
	}
	if folder == to {
		return nil
	}
	_, err := p.Fetch(ctx, r)
	return err
}
