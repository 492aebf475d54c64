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
	"github.com/edgewise-ai/edgewise/appliance/update/driver"
	"github.com/edgewise-ai/edgewise/appliance/update/helper"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
)

func (p *program) driver() *cobra.Command {
	return cli.Group("driver", "Install drivers for graphics on a box that was flashed",
		p.driverList(), p.driverInstall(),
		p.driverAsk("remove NAME", "Remove a driver; it is gone with the next start of the machine", (*client.Client).RemoveDriver),
		p.driverAsk("rollback NAME", "Go back to the version of a driver that was installed before", (*client.Client).RollBackDriver),
		p.driverMount(), p.driverUnmount())
}

func (p *program) driverList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the drivers that are installed, and devices without one",
		Args:  cli.Arguments(),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, _ []string) error {
			d, err := box.Drivers(ctx)
			if err != nil {
				return err
			}
			return p.Print(d, func(w io.Writer) { drivers(w, d) })
		}),
	}
}

// drivers prints the drivers of a box and its devices for graphics.
func drivers(w io.Writer, d *admin.Drivers) {
	if !d.Possible {
		fmt.Fprintln(w, d.Problem)
	}
	for _, i := range d.Installed {
		state := "kept"
		switch {
		case i.Mounted:
			state = "in use"
		case i.Next:
			state = "in use after the next start of the machine"
		}
		fmt.Fprintf(w, "%-10s %s, %d MB, %s", i.Name, i.Version, i.Size/1e6, state)
		if i.Reason != "" {
			fmt.Fprintf(w, ": %s", i.Reason)
		}
		fmt.Fprintln(w)
	}
	for _, g := range d.Devices {
		fmt.Fprintf(w, "%-10s %s %s: %s\n", "device", g.BusID, g.Name, g.Text)
	}
}

func (p *program) driverInstall() *cobra.Command {
	return &cobra.Command{
		Use:   "install FILE",
		Short: "Install a signed driver extension; the next start of the machine uses it",
		Long: "Install sends a driver extension (.driver) to the box, which checks its signature, and that it fits the box, before it\n" +
			"keeps it. Run by root on a box that was flashed, without --server, it is installed without the box's help, also when the\n" +
			"box does not answer.",
		Args: cli.Arguments("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return edgewise.Errorf("driver", edgewise.NotFound, "%w", err)
			}
			defer func() { _ = f.Close() }()
			if !cmd.Flags().Changed("server") && os.Geteuid() == 0 && (helper.Client{}).Present() {
				return p.installDriver(cmd.Context(), f)
			}
			box, err := p.Box()
			if err != nil {
				return err
			}
			d, err := box.SendDriver(cmd.Context(), f)
			if err != nil {
				return err
			}
			return p.Print(d, func(w io.Writer) { drivers(w, d) })
		},
	}
}

// installDriver has the helper of this machine install an extension, also one for the slot that an update has prepared.
func (p *program) installDriver(ctx context.Context, f *os.File) error {
	ask := helper.Request{Do: helper.DoDriverInstall}
	if u, err := update.Open(ctx); err == nil {
		if s, err := u.Status(ctx); err == nil {
			ask.Next = s.Next()
		}
		_ = u.Close()
	}
	answer, err := (helper.Client{}).Ask(ctx, ask, f, nil)
	if err != nil {
		return err
	}
	return p.Print(answer.Drivers, func(w io.Writer) {
		fmt.Fprintln(w, "the driver is installed; restart the machine to use it")
	})
}

// driverAsk returns a command that changes a driver of a box and prints what there is then.
func (p *program) driverAsk(use, short string, ask func(*client.Client, context.Context, string) (*admin.Drivers, error)) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cli.Arguments("NAME"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			d, err := ask(box, ctx, args[0])
			if err != nil {
				return err
			}
			return p.Print(d, func(w io.Writer) { drivers(w, d) })
		}),
	}
}

// machine is this machine with the drivers of its helper.
func (p *program) machine() *driver.Machine {
	return &driver.Machine{
		Folder: &driver.Folder{Path: filepath.Join(helperFolder, helper.DriverFolder), Keys: releaseKeys},
		System: driver.Running("/etc/os-release", "/proc/cmdline"),
		Mount:  driver.MountFolder, Root: "/", Boot: "/efi", Run: helper.Run,
		Say: func(text string) { fmt.Fprintln(p.Err, text) },
	}
}

// driverMount is what a flashed box runs at its start, before the appliance.
func (p *program) driverMount() *cobra.Command {
	return &cobra.Command{
		Use:    "mount",
		Short:  "Mount the drivers that fit this system, as root: systemd starts this",
		Hidden: true,
		Args:   cli.Arguments(),
		RunE:   func(cmd *cobra.Command, _ []string) error { return p.machine().Start(cmd.Context()) },
	}
}

func (p *program) driverUnmount() *cobra.Command {
	return &cobra.Command{
		Use:    "unmount",
		Short:  "Unmount the drivers, as root: systemd starts this",
		Hidden: true,
		Args:   cli.Arguments(),
		Run:    func(cmd *cobra.Command, _ []string) { p.machine().Stop(cmd.Context()) },
	}
}
