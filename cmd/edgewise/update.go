package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise/appliance/update"
)

// allowDowngrade is the file that lets RAUC's hook take an older version until the next start of the box.
const allowDowngrade = "/run/edgewise-allow-downgrade"

func (p *program) update() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "update",
		Short: "Update the system of an image, on the box itself",
		Args:  cobra.ArbitraryArgs,
		RunE:  unknownCommand,
	}
	cmd.AddCommand(p.updateStatus(), p.updateInstall())
	return cmd
}

func (p *program) updateStatus() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Say which slot runs, which is next, and what is in them",
		Args:  arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			u, err := update.Open(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { _ = u.Close() }()
			s, err := u.Status(cmd.Context())
			if err != nil {
				return err
			}
			return p.print(s, func(w io.Writer) { slots(w, s) })
		},
	}
}

func slots(w io.Writer, s update.Status) {
	fmt.Fprintf(w, "kind       %s\nruns       slot %s\nnext       slot %s\n", s.Compatible, s.Booted, s.Primary)
	for _, slot := range s.Slots {
		good := "not bootable"
		if slot.Good {
			good = "good"
		}
		version := slot.Version
		if version == "" {
			version = "as flashed"
		}
		fmt.Fprintf(w, "slot %s     %s, %s, %s\n", slot.Name, slot.State, good, version)
	}
	if s.LastError != "" {
		fmt.Fprintf(w, "last error %s\n", s.LastError)
	}
}

func (p *program) updateInstall() *cobra.Command {
	var downgrade bool
	cmd := &cobra.Command{
		Use:   "install BUNDLE",
		Short: "Write a signed update into the slot that does not run; the next start of the box uses it",
		Long: "Install checks the signature of a bundle and writes it into the slot that does not run. Nothing is restarted. A system\n" +
			"that does not pass its check within three starts is left again by itself.",
		Args: arguments("BUNDLE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			u, err := update.Open(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { _ = u.Close() }()
			if downgrade {
				if err := os.WriteFile(allowDowngrade, nil, 0o600); err != nil {
					return err
				}
				defer func() { _ = os.Remove(allowDowngrade) }()
			}
			b, err := u.Inspect(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := u.Install(cmd.Context(), args[0], func(percent int, doing string) { fmt.Fprintf(p.err, "%3d %% %s\n", percent, doing) }); err != nil {
				return err
			}
			return p.print(b, func(w io.Writer) { fmt.Fprintf(w, "version %s is installed; restart the box to use it\n", b.Version) })
		},
	}
	cmd.Flags().BoolVar(&downgrade, "allow-downgrade", false, "install also what is older than the system that runs")
	return cmd
}
