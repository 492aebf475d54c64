package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/user"
	"strconv"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/update"
	"github.com/edgewise-ai/edgewise/appliance/update/driver"
	"github.com/edgewise-ai/edgewise/appliance/update/helper"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
)

// helperLinger is how long the helper waits for the next question before it ends; systemd starts it again.
const helperLinger = time.Minute

// Where the helper has its files, and the public keys of releases are.
const (
	helperFolder = "/var/lib/edgewise-update"
	releaseKeys  = "/usr/share/edgewise/keys"
)

// helper is the privileged part of a box, which systemd runs.
func (p *program) helper() *cobra.Command {
	c := helper.Config{Log: slog.New(slog.NewTextHandler(p.Err, nil))}
	var listen, name string
	cmd := &cobra.Command{
		Use:    "helper",
		Short:  "Install updates for the box, as root: systemd starts this",
		Hidden: true,
		Args:   cli.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			who, err := user.Lookup(name)
			if err != nil {
				return edgewise.Errorf("helper", edgewise.NotFound, "%w", err)
			}
			id, err := strconv.ParseUint(who.Uid, 10, 32)
			if err != nil {
				return edgewise.Errorf("helper", edgewise.Internal, "%w", err)
			}
			program, err := os.Executable()
			if err != nil {
				return edgewise.Errorf("helper", edgewise.Internal, "%w", err)
			}
			c.User, c.Image = uint32(id), update.Identify(program, "/etc/os-release").Kind == update.Image
			c.System = driver.Running("/etc/os-release", "/proc/cmdline")
			l, linger, err := helperListener(listen)
			if err != nil {
				return err
			}
			s, err := helper.New(c)
			if err != nil {
				return err
			}
			return s.Serve(cmd.Context(), l, linger)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", "socket to listen at; default: the one that systemd hands over")
	cmd.Flags().StringVar(&name, "user", "edgewise", "user who may ask")
	cmd.Flags().StringVar(&c.Folder, "state", helperFolder, "folder of root's for packages")
	cmd.Flags().StringVar(&c.Keys, "keys", releaseKeys, "folder with the public keys of releases")
	cmd.Flags().StringVar(&c.Data, "data", "/var/lib/edgewise", "data folder of the box")
	return cmd
}

func helperListener(path string) (l *net.UnixListener, linger time.Duration, err error) {
	const op = "helper"
	if path != "" {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			return nil, 0, edgewise.Errorf(op, edgewise.Unavailable, "%w", err)
		}
		return l, 0, nil
	}
	handed, err := activation.Listeners()
	if err != nil || len(handed) != 1 {
		return nil, 0, edgewise.Errorf(op, edgewise.Invalid, "systemd has handed over %d sockets: want 1, or --listen", len(handed))
	}
	l, ok := handed[0].(*net.UnixListener)
	if !ok {
		return nil, 0, edgewise.Errorf(op, edgewise.Invalid, "%s", fmt.Sprintf("the socket is a %T: want one of Unix", handed[0]))
	}
	l.SetUnlinkOnClose(false)
	return l, helperLinger, nil
}
