package model

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
)

func (p commands) diff() *cobra.Command {
	return &cobra.Command{
		Use:   "diff NAME FROM TO",
		Short: "Say what differs between two versions: signature, configuration and files",
		Args:  cli.Arguments("NAME", "FROM", "TO"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			if err := edgewise.CheckName(args[0]); err != nil {
				return cli.Usage(err)
			}
			var versions [2]int64
			for i, text := range args[1:] {
				number, err := strconv.ParseInt(text, 10, 64)
				if err != nil || number < 1 {
					return cli.Usagef("version %q: want a number above 0", text)
				}
				versions[i] = number
			}
			compared, err := box.Compare(ctx, args[0], versions[0], versions[1])
			if err != nil {
				return err
			}
			return p.Print(compared, func(w io.Writer) { describeComparison(w, args[0], &compared) })
		}),
	}
}

func describeComparison(w io.Writer, name string, c *admin.Comparison) {
	fmt.Fprintf(w, "model %q: from version %d to version %d\n", name, c.From.Version, c.To.Version)
	for _, d := range c.Differences {
		fmt.Fprintf(w, "  %s\n", strings.Join(strings.Fields(d.String()), " "))
	}
	if len(c.Differences) == 0 {
		fmt.Fprintln(w, "  signature, configuration and files are the same")
	}
}
