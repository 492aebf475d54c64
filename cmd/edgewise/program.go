package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/appliance"
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

// defaultServer is where the commands look for a box that is not named.
const defaultServer = "http://127.0.0.1:8000"

// program is one invocation of the command line.
type program struct {
	in          io.Reader
	out, err    io.Writer
	environment []string
	server      string // base URL of the box
	token       string // API key; empty: see credentials
	authority   string // file of the authority that the box's certificate is of; empty: see credentials
	output      string // text or json
}

// usageError marks errors of the command line itself.
type usageError struct{ error }

func (p *program) run(ctx context.Context, args []string) int {
	root := p.root()
	args, err := readable(root, args)
	if err == nil {
		root.SetArgs(args)
		root.SetIn(p.in)
		root.SetOut(p.out)
		root.SetErr(p.err)
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
	rest, err := asGetopt(cmd, args[1:])
	return append(args[:1:1], rest...), err
}

// report prints an error: as text, or as JSON where JSON was asked for.
func (p *program) report(err error) {
	if p.output == "json" {
		body := map[string]string{"error": err.Error()}
		if !isUsage(err) {
			body["code"] = edgewise.KindOf(err).String()
		}
		_ = json.NewEncoder(p.err).Encode(body)
		return
	}
	fmt.Fprintf(p.err, "edgewise: %v%s\n", err, hint(err))
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
	var usage usageError
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
			if p.output != "text" && p.output != "json" {
				return usageError{fmt.Errorf("--output %q: want text or json", p.output)}
			}
			return nil
		},
	}
	root.PersistentFlags().StringVar(&p.server, "server", defaultServer, "base URL of the box")
	root.PersistentFlags().StringVar(&p.token, "token", "",
		"API key for the box; default: "+tokenVariable+", else, on this machine, what a box of the same user has left for it")
	root.PersistentFlags().StringVar(&p.authority, "ca", "", "PEM file with the authority of the box's certificate")
	root.PersistentFlags().StringVarP(&p.output, "output", "o", "text", "text or json")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	})
	root.AddCommand(p.serve(), p.model(), p.golden(), p.rollout(), p.recording(), p.replay(), p.infer(), p.perf(), p.step(),
		p.demo(), p.doctor(), p.update(), p.user(), p.helper(), p.configuration(), p.version())
	return root
}

// arguments checks the number of arguments and names them when it is wrong. One in brackets, behind all others, may be
// left out.
func arguments(names ...string) cobra.PositionalArgs {
	needed := len(names)
	for needed > 0 && strings.HasPrefix(names[needed-1], "[") {
		needed--
	}
	return func(cmd *cobra.Command, args []string) error {
		if needed <= len(args) && len(args) <= len(names) {
			return nil
		}
		want := "want " + strings.Join(names, " ")
		if len(names) == 0 {
			want = "it takes no arguments"
		}
		return usageError{fmt.Errorf("%s, got %d; see %s --help", want, len(args), cmd.CommandPath())}
	}
}

// unknownCommand runs a command that only has others below it: none of them was named.
func unknownCommand(cmd *cobra.Command, args []string) error {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	want := strings.Join(names, ", ")
	if len(args) == 0 {
		return usageError{fmt.Errorf("want a command below %q: one of %s", cmd.CommandPath(), want)}
	}
	return usageError{fmt.Errorf("unknown command %q for %q: want one of %s; see %s --help", args[0], cmd.CommandPath(),
		want, cmd.CommandPath())}
}

// box returns a client of the box.
func (p *program) box() (*client.Client, error) {
	access, err := p.credentials()
	if err != nil {
		return nil, err
	}
	c, err := client.New(p.server, access.options()...)
	if err != nil {
		return nil, usageError{fmt.Errorf("--server: %w", err)}
	}
	return c, nil
}

// print writes a result: value as JSON, or what text writes.
func (p *program) print(value any, text func(w io.Writer)) error {
	if p.output != "json" {
		text(p.out)
		return nil
	}
	encoder := json.NewEncoder(p.out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
