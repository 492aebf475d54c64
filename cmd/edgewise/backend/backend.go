// Package backend has the commands of backends: programs that serve models for the box.
package backend

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/backend/conformance"
	"github.com/edgewise-ai/edgewise/appliance/serving"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/settings"
)

// commands are the commands of this noun in one invocation of the program.
type commands struct{ *cli.Program }

// Command is "edgewise backend" with the commands below it.
func Command(program *cli.Program) *cobra.Command {
	p := commands{program}
	return cli.Group("backend", "List the programs that serve models of other frameworks, and check one",
		p.list(), p.test())
}

// Line is a line about a backend.
func Line(b admin.Backend) string {
	text := b.Name + ": "
	if len(b.Platforms) > 0 {
		text += "platform " + strings.Join(b.Platforms, ", ") + ", "
	}
	if b.Address != "" {
		text += "at " + b.Address + ", "
	}
	text += "in " + b.Folder
	if !b.Usable {
		text += ": cannot be used: " + b.Problem
	}
	return text
}

func (p commands) list() *cobra.Command {
	var s settings.Settings
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the backends that a box with this configuration has",
		Args:  cli.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.Load(p.Environment)
			if err != nil {
				return err
			}
			found := serving.Backends(cmd.Context(), c)
			return p.Print(found, func(w io.Writer) {
				for _, b := range found {
					fmt.Fprintln(w, Line(b))
				}
			})
		},
	}
	s.Register(cmd)
	return cmd
}

// rule is the outcome of a rule, as it is printed.
type rule struct {
	Name    string `json:"name"`
	Rule    string `json:"rule"`
	Problem string `json:"problem,omitempty"`
	Millis  int64  `json:"milliseconds"`
}

func (p commands) test() *cobra.Command {
	var s settings.Settings
	var model string
	cmd := &cobra.Command{
		Use:   "test NAME|FOLDER",
		Short: "Check that a backend keeps the rules of its protocol",
		Long: "Test starts the backend in the sandbox that the box would give it, has its conformance model do what each\n" +
			"rule says, and names the rules that are broken.\n\n  edgewise backend test python\n" +
			"  edgewise backend test ./mybackend\n",
		Args: cli.Arguments("NAME|FOLDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.Load(p.Environment)
			if err != nil {
				return err
			}
			r := report{program: p.Program}
			if err := serving.CheckBackend(cmd.Context(), c, args[0], model, r.line, r.show); err != nil {
				return err
			}
			return r.end()
		},
	}
	s.Register(cmd)
	cmd.Flags().StringVar(&model, "model", "", "folder of the conformance model, instead of the backend's own")
	return cmd
}

// report prints the outcomes: each when it is known, or all as JSON.
type report struct {
	program *cli.Program
	results []rule
	broken  int
}

func (r *report) line(text []byte) { fmt.Fprintf(r.program.Err, "%s\n", text) }

func (r *report) show(result conformance.Result) {
	one, word := rule{Name: result.Name, Rule: result.Rule, Millis: result.Took.Milliseconds()}, "ok"
	if result.Err != nil {
		r.broken++
		one.Problem, word = result.Err.Error(), "BROKEN"
	}
	r.results = append(r.results, one)
	if r.program.Output != "json" {
		took := result.Took.Round(time.Millisecond).String()
		fmt.Fprintf(r.program.Out, "%-7s %-16s %s\n", word, one.Name, cmp.Or(one.Problem, took))
	}
}

// end prints what is left to print. Error: rules are broken.
func (r *report) end() error {
	if r.program.Output == "json" {
		if err := r.program.Print(r.results, nil); err != nil {
			return err
		}
	}
	if r.broken > 0 {
		return edgewise.Errorf("backend.test", edgewise.Invalid, "%d of %d rules are broken", r.broken, len(r.results))
	}
	return nil
}
