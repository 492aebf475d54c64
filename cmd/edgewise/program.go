package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/backend"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/capacity"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/export"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/fleet"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/golden"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/model"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/recording"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/rollout"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/roofline"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/settings"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/tune"
)

// Exit codes, as the help text tells them.
const (
	exitOK          = 0
	exitFailed      = 1 // a fault of the program or the machine
	exitUsage       = 2 // the command line is wrong
	exitNotFound    = 3 // the named model, version or file does not exist
	exitRefused     = 4 // the box refuses: invalid, exists, conflict, too large, unsupported, denied
	exitUnavailable = 5 // the box or the model cannot be reached, is not ready or is busy
	exitDamaged     = 6 // stored data is damaged, or disk or memory is used up
)

const exitHelp = `Exit codes:
  0  done
  1  a fault of the program or the machine
  2  the command line is wrong
  3  the named model, version or file does not exist
  4  the box refuses: invalid, exists, conflict, too large, unsupported, denied
  5  the box or the model cannot be reached, is not ready or is busy
  6  stored data is damaged, or disk or memory is used up`

// program is one invocation of the command line.
type program struct{ cli.Program }

func (p *program) run(ctx context.Context, args []string) int {
	root := p.root()
	args, err := readable(root, args)
	if err == nil {
		root.SetArgs(args)
		root.SetIn(p.In)
		root.SetOut(p.Out)
		root.SetErr(p.Err)
		err = root.ExecuteContext(ctx)
	}
	if err == nil {
		return exitOK
	}
	p.report(err)
	return exitCode(err)
}

// readable rewrites the arguments of serve, which accepts Triton's flags, in the form that the flag library reads.
func readable(root *cobra.Command, args []string) ([]string, error) {
	if len(args) == 0 || args[0] != "serve" {
		return args, nil
	}
	cmd, _, err := root.Find(args[:1])
	if err != nil {
		return nil, err
	}
	rest, err := settings.Getopt(cmd, args[1:])
	return append(args[:1:1], rest...), err
}

// report prints an error: as text, or as JSON where JSON was asked for.
func (p *program) report(err error) {
	if p.Output == "json" {
		body := map[string]string{"error": err.Error()}
		if !isUsage(err) {
			body["code"] = edgewise.KindOf(err).String()
		}
		_ = json.NewEncoder(p.Err).Encode(body)
		return
	}
	fmt.Fprintf(p.Err, "edgewise: %v%s\n", err, hint(err))
}

// hint says what a person may do about a box that does not answer, "" where nothing is known.
func hint(err error) string {
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &unknown):
		return "; --ca takes the box's own authority, a file that its page offers under Settings, Security"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "; is a box running there? --server names another address"
	}
	return ""
}

func isUsage(err error) bool {
	var usage cli.UsageError
	return errors.As(err, &usage) || strings.HasPrefix(err.Error(), "unknown command")
}

func exitCode(err error) int {
	if isUsage(err) {
		return exitUsage
	}
	switch edgewise.KindOf(err) {
	case edgewise.NotFound:
		return exitNotFound
	case edgewise.Invalid, edgewise.Exists, edgewise.Conflict, edgewise.TooLarge, edgewise.Unsupported, edgewise.Denied,
		edgewise.Unauthenticated, edgewise.Guest:
		return exitRefused
	case edgewise.Unavailable, edgewise.Busy, edgewise.Deadline, edgewise.Canceled:
		return exitUnavailable
	case edgewise.Corrupt, edgewise.Exhausted:
		return exitDamaged
	}
	return exitFailed
}

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "edgewise",
		Short: "An inference appliance for the edge: versioned models, served over REST",
		Long: "Edgewise serves ONNX models from a versioned store. \"edgewise serve\" is the box; the other " +
			"commands talk to one.\n\n" + exitHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       appliance.Version,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if p.Output != "text" && p.Output != "json" {
				return cli.Usagef("--output %q: want text or json", p.Output)
			}
			return nil
		},
	}
	root.PersistentFlags().StringVar(&p.Server, "server", cli.DefaultServer, "base URL of the box")
	root.PersistentFlags().StringVar(&p.Token, "token", "",
		"API key for the box; default: "+cli.TokenVariable+", else, on this machine, what a box of the same user has left for it")
	root.PersistentFlags().StringVar(&p.Authority, "ca", "", "PEM file with the authority of the box's certificate")
	root.PersistentFlags().StringVarP(&p.Output, "output", "o", "text", "text or json")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return cli.Usagef("%w; see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(p.serve(), model.Command(&p.Program), golden.Command(&p.Program), backend.Command(&p.Program), rollout.Command(&p.Program),
		recording.Command(&p.Program), recording.Replay(&p.Program), tune.Command(&p.Program), roofline.Command(&p.Program),
		capacity.Command(&p.Program), export.Command(&p.Program), p.infer(),
		p.perf(), p.step(), fleet.Command(&p.Program), p.demo(), p.doctor(), p.update(), p.driver(),
		p.user(), p.helper(), p.configuration(), p.version())
	return root
}
