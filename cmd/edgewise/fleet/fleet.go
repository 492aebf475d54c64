// Package fleet has the commands of fleets: the document that boxes follow, and what became of it on a box.
package fleet

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
)

// commands are the commands of this noun in one invocation of the program.
type commands struct{ *cli.Program }

// Command is "edgewise fleet" with the commands below it.
func Command(program *cli.Program) *cobra.Command {
	p := commands{program}
	return cli.Group("fleet", "Let many boxes follow one signed document, without a server that knows them",
		p.sign(), p.diff(), p.status(),
		p.plain("poll", "Let the box ask for the document now", (*client.Client).PollFleet),
		p.plain("forget", "Let the box forget the document, and the serial below which it refuses others", (*client.Client).ForgetFleet))
}

func (p commands) status() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show what the box was told by its fleet, what it did, and what failed",
		Args:  cli.Arguments(),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, _ []string) error {
			s, err := box.Fleet(ctx)
			if err != nil {
				return err
			}
			return p.Print(s, func(w io.Writer) { describe(w, s) })
		}),
	}
}

func describe(w io.Writer, s admin.Fleet) {
	if s.Source == "" {
		fmt.Fprintln(w, "the box follows no fleet: fleet.source is empty")
		return
	}
	fmt.Fprintf(w, "box %s: %s\n", s.Box, s.State)
	if s.Serial != 0 {
		fmt.Fprintf(w, "fleet %s, serial %d, signed by %s\n", s.Fleet, s.Serial, s.SignedBy)
		fmt.Fprintf(w, "groups: %s\n", strings.Join(s.Groups, ", "))
	}
	for _, line := range []string{s.Problem, s.Warning, s.ReportProblem} {
		if line != "" {
			fmt.Fprintf(w, "! %s\n", line)
		}
	}
	wishes(w, s.Wishes)
}

func wishes(w io.Writer, list []admin.Wish) {
	for _, wish := range list {
		name, what := "settings", wish.State
		if wish.Model != "" {
			name = wish.Model + ":" + wish.Label
		}
		switch {
		case wish.State == admin.WishNext && wish.Next == admin.FleetSettings:
			what = "change"
		case wish.State == admin.WishNext:
			what = wish.Next
		}
		if wish.Version != 0 {
			name += fmt.Sprintf(" (version %d)", wish.Version)
		}
		if wish.Reason != "" {
			what += ": " + wish.Reason
		}
		fmt.Fprintf(w, "%s  %s\n", name, what)
	}
}

func (p commands) diff() *cobra.Command {
	return &cobra.Command{
		Use:   "diff FILE",
		Short: "Show what a document would change on the box; nothing is changed",
		Args:  cli.Arguments("FILE"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return cli.Usage(err)
			}
			d, err := box.FleetDiff(ctx, string(text))
			if err != nil {
				return err
			}
			return p.Print(d, func(w io.Writer) {
				fmt.Fprintf(w, "fleet %s, serial %d, groups: %s\n", d.Fleet, d.Serial, strings.Join(d.Groups, ", "))
				wishes(w, d.Wishes)
			})
		}),
	}
}

// plain is a command without arguments that prints nothing.
func (p commands) plain(name, short string, do func(*client.Client, context.Context) error) *cobra.Command {
	return &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cli.Arguments(),
		RunE:  p.Boxed(func(ctx context.Context, box *client.Client, _ []string) error { return do(box, ctx) }),
	}
}
