package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/appliance/update"
	"github.com/edgewise-ai/edgewise/appliance/update/helper"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
)

func (p *program) update() *cobra.Command {
	return cli.Group("update", "Update the system of a box, restart it, or go back",
		p.updateStatus(), p.updateInstall(),
		p.updateAsk("cancel", "Give an update up, also one that is ready", "the update is given up", (*client.Client).CancelUpdate),
		p.updateAsk("rollback", "Go back to the version that ran before",
			"the version before is next; a box that was flashed goes back with its next restart", (*client.Client).RollBackSystem),
		p.updateAsk("restart", "Restart the box, which brings an update that is ready", "the box restarts",
			(*client.Client).RestartSystem),
		p.updateReset())
}

func (p *program) updateStatus() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Say which version runs, which is next, and how the last update went",
		Args:  cli.Arguments(),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, _ []string) error {
			s, err := box.System(ctx)
			if err != nil {
				return err
			}
			return p.Print(s.Update, func(w io.Writer) { system(w, s) })
		}),
	}
}

// system prints how a box is updated.
func system(w io.Writer, s *admin.System) {
	u := s.Update
	if u == nil {
		return
	}
	fmt.Fprintf(w, "version    %s (%s)\n", u.Version, u.Kind)
	if !u.Possible {
		fmt.Fprintf(w, "           %s\nupdate     %s\n", u.Problem, u.Takes)
	}
	for _, slot := range u.Slots {
		good, version := "not bootable, or not checked yet", slot.Version
		if slot.Good {
			good = "good"
		}
		if version == "" {
			version = "as flashed"
		}
		fmt.Fprintf(w, "slot %s     %s, %s, %s\n", slot.Name, slot.State, good, version)
	}
	if u.Next != "" {
		fmt.Fprintf(w, "next       slot %s\n", u.Next)
	}
	if u.Previous != "" {
		fmt.Fprintf(w, "previous   %s\n", u.Previous)
	}
	if j := u.Job; j != nil {
		fmt.Fprintf(w, "update     %s %s %s%s\n", j.State, j.Version, j.Confirm, j.Error)
	}
	if l := u.Last; l != nil {
		outcome := "went well"
		if l.Error != "" {
			outcome = l.Error
		}
		fmt.Fprintf(w, "last       %s to %s: %s\n", l.Action, l.Version, outcome)
	}
	if s.FailedBoot != nil {
		fmt.Fprintf(w, "failed     %s\n", s.FailedBoot.Text)
	}
	if s.SafeStart != nil {
		fmt.Fprintf(w, "safe start %s\n", s.SafeStart.Text)
	}
}

func (p *program) updateInstall() *cobra.Command {
	var downgrade bool
	cmd := &cobra.Command{
		Use:   "install FILE",
		Short: "Install a signed update; a restart brings it",
		Long: "Install sends an update to the box, which checks its signature before anything is written. A box that was flashed takes a\n" +
			"bundle (.raucb); one that was installed as a Debian package takes the package (.deb), with its signature in FILE.minisig.\n" +
			"Nothing is restarted. Run by root on a box that was flashed, without --server, the update is installed without the box's\n" +
			"help, also when the box does not answer.",
		Args: cli.Arguments("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("server") && os.Geteuid() == 0 {
				u, err := update.Open(cmd.Context())
				if err == nil {
					defer func() { _ = u.Close() }()
					return p.installDirectly(cmd, u, args[0], downgrade)
				}
			}
			return p.installByBox(cmd, args[0], downgrade)
		},
	}
	cmd.Flags().BoolVar(&downgrade, "allow-downgrade", false, "install also what is older than the system that runs")
	return cmd
}

// installDirectly installs an update by RAUC, without the box.
func (p *program) installDirectly(cmd *cobra.Command, u *update.Updater, path string, downgrade bool) error {
	if downgrade {
		if err := os.WriteFile(helper.DowngradeFile, nil, 0o600); err != nil {
			return err
		}
		defer func() { _ = os.Remove(helper.DowngradeFile) }()
	}
	b, err := u.Inspect(cmd.Context(), path)
	if err != nil {
		return err
	}
	if err := u.Install(cmd.Context(), path, p.progress); err != nil {
		return err
	}
	return p.Print(b, func(w io.Writer) { fmt.Fprintf(w, "version %s is installed; restart the box to use it\n", b.Version) })
}

func (p *program) progress(percent int, doing string) {
	fmt.Fprintf(p.Err, "%3d %% %s\n", percent, doing)
}

// installByBox sends an update to a box and waits until it is ready.
func (p *program) installByBox(cmd *cobra.Command, path string, downgrade bool) error {
	signature, err := os.ReadFile(path + ".minisig")
	if err != nil && (!os.IsNotExist(err) || filepath.Ext(path) == ".deb") {
		return edgewise.Errorf("update", edgewise.NotFound, "a package needs its signature beside it: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return edgewise.Errorf("update", edgewise.NotFound, "%w", err)
	}
	defer func() { _ = f.Close() }()
	box, err := p.Box()
	if err != nil {
		return err
	}
	u, err := box.SendUpdate(cmd.Context(), f, signature, downgrade)
	if err != nil {
		return err
	}
	if u, err = box.AwaitUpdate(cmd.Context(), u, p.progress); err != nil {
		return err
	}
	return p.Print(u, func(w io.Writer) {
		fmt.Fprintf(w, "version %s is ready; it runs after: edgewise update restart\n", u.Job.Version)
	})
}

// updateAsk returns a command that sends one request to a box and prints what it has caused.
func (p *program) updateAsk(use, short, done string, ask func(*client.Client, context.Context) error) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cli.Arguments(),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, _ []string) error {
			if err := ask(box, ctx); err != nil {
				return err
			}
			return p.Print(map[string]string{"done": done}, func(w io.Writer) { fmt.Fprintln(w, done) })
		}),
	}
}

func (p *program) updateReset() *cobra.Command {
	var word string
	cmd := p.updateAsk("factory-reset", "Erase models, accounts and settings of the box, and restart it",
		"the box erases itself and restarts",
		func(box *client.Client, ctx context.Context) error { return box.EraseSystem(ctx, word) })
	cmd.Flags().StringVar(&word, "confirm", "", `the word "erase"`)
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if word == "" {
			return cli.Usagef("this erases all models, accounts and settings: say --confirm erase")
		}
		return nil
	}
	return cmd
}
