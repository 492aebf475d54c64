package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
)

// maxPasswordLine bounds what is read of standard input for a password, in bytes.
const maxPasswordLine = 4 << 10

func (p *program) user() *cobra.Command {
	cmd := cli.Group("user", "List and add users, and set their passwords",
		p.userList(), p.userAdd(), p.userPassword())
	cmd.Long = "User changes who may log in. It needs the right admin: an API key that has it, or, on the box itself, no more than to be\n" +
		"the system's user that the box runs as. Passwords are read from the first line of standard input."
	return cmd
}

func (p *program) userList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List users with their roles",
		Args:  cli.Arguments(),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, _ []string) error {
			users, err := box.Users(ctx)
			if err != nil {
				return err
			}
			return p.Print(users, func(w io.Writer) {
				t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				fmt.Fprintln(t, "NAME\tROLE\tSTATE")
				for _, u := range users {
					fmt.Fprintf(t, "%s\t%s\t%s\n", u.Name, u.Role, accountState(u))
				}
				_ = t.Flush()
			})
		}),
	}
}

func accountState(u admin.User) string {
	if u.Disabled {
		return "disabled"
	}
	return "enabled"
}

func (p *program) userAdd() *cobra.Command {
	n := admin.UserNew{Role: "viewer"}
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a user whose password is the first line of standard input",
		Args:  cli.Arguments("NAME"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			var err error
			if n.Password, err = p.password(); err != nil {
				return err
			}
			n.Name = args[0]
			u, err := box.AddUser(ctx, n)
			if err != nil {
				return err
			}
			return p.Print(u, func(w io.Writer) { fmt.Fprintf(w, "user %q: added with the role %s\n", u.Name, u.Role) })
		}),
	}
	cmd.Flags().StringVar(&n.Role, "role", n.Role, "viewer, operator or admin")
	return cmd
}

func (p *program) userPassword() *cobra.Command {
	return &cobra.Command{
		Use:   "password NAME",
		Short: "Set a user's password to the first line of standard input, and end the user's sessions",
		Args:  cli.Arguments("NAME"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			password, err := p.password()
			if err != nil {
				return err
			}
			u, err := box.ChangeUser(ctx, args[0], admin.UserChange{Password: &password})
			if err != nil {
				return err
			}
			return p.Print(u, func(w io.Writer) { fmt.Fprintf(w, "user %q: the password is set, all sessions have ended\n", u.Name) })
		}),
	}
}

// password reads the first line of standard input.
func (p *program) password() (string, error) {
	line, err := bufio.NewReader(io.LimitReader(p.In, maxPasswordLine)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	password := strings.TrimRight(line, "\r\n")
	if password == "" {
		return "", cli.Usagef("standard input has no password: want it in its first line")
	}
	return password, nil
}
