// Package cli holds what commands share: the box that they talk to, their arguments, and how they print.
package cli

import (
	"context"
	"encoding/json"
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise/api/client"
)

// DefaultServer is where the commands look for a box that is not named.
const DefaultServer = "http://127.0.0.1:8000"

// Program is one invocation of the command line.
type Program struct {
	In          io.Reader
	Out, Err    io.Writer
	Environment []string
	Server      string // base URL of the box
	Token       string // API key; empty: see Credentials
	Authority   string // file of the authority that the box's certificate is of; empty: see Credentials
	Output      string // text or json
}

// Box returns a client of the box.
func (p *Program) Box() (*client.Client, error) {
	access, err := p.Credentials()
	if err != nil {
		return nil, err
	}
	c, err := client.New(p.Server, access.options()...)
	if err != nil {
		return nil, Usagef("--server: %w", err)
	}
	return c, nil
}

// Print writes a result: value as JSON, or what text writes.
func (p *Program) Print(value any, text func(w io.Writer)) error {
	if p.Output != "json" {
		text(p.Out)
		return nil
	}
	encoder := json.NewEncoder(p.Out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// Boxed runs a command with a client of the box.
func (p *Program) Boxed(run func(ctx context.Context, box *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		box, err := p.Box()
		if err != nil {
			return err
		}
		return run(cmd.Context(), box, args)
	}
}

// Bar shows the progress of long work on standard error, when that is a terminal.
func (p *Program) Bar(total int64, what string) *progressbar.ProgressBar {
	return progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(p.Err), progressbar.OptionSetDescription(what), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetVisibility(IsTerminal(p.Err)), progressbar.OptionThrottle(100_000_000))
}

// IsTerminal tells whether what is written is shown to a person.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(interface{ Stat() (os.FileInfo, error) })
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
