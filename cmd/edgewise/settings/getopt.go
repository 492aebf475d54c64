package settings

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
)

// Getopt rewrites a command's arguments as getopt_long reads them, which is what reads Triton's: a flag may be
// shortened as long as only one begins so, and a truth value may stand apart from its flag. Errors: that of a beginning
// that several flags have.
func Getopt(cmd *cobra.Command, arguments []string) ([]string, error) {
	flags := flagsOf(cmd)
	out := make([]string, 0, len(arguments))
	for i := 0; i < len(arguments); i++ {
		argument := arguments[i]
		if argument == "--" {
			return append(out, arguments[i:]...), nil
		}
		name, value, joined := strings.Cut(argument, "=")
		if !strings.HasPrefix(name, "--") {
			out = append(out, argument)
			continue
		}
		flag, err := whole(flags, name[2:])
		switch {
		case err != nil:
			return nil, err
		case flag == nil: // the command refuses it
			out = append(out, argument)
			continue
		case joined:
			out = append(out, "--"+flag.Name+"="+value)
			continue
		}
		out = append(out, "--"+flag.Name)
		if i+1 < len(arguments) && takesNext(flag, arguments[i+1]) {
			i++
			out[len(out)-1] += "=" + arguments[i]
		}
	}
	return out, nil
}

// flagsOf returns the flags of a command and of those above it, by name.
func flagsOf(cmd *cobra.Command) map[string]*pflag.Flag {
	flags := map[string]*pflag.Flag{}
	add := func(f *pflag.Flag) { flags[f.Name] = f }
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return flags
}

// whole returns the flag of a name, or the only one whose name begins with it, or nil.
func whole(flags map[string]*pflag.Flag, name string) (*pflag.Flag, error) {
	if flags[name] != nil || name == "" {
		return flags[name], nil
	}
	var found []string
	for long := range flags {
		if strings.HasPrefix(long, name) {
			found = append(found, long)
		}
	}
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return flags[found[0]], nil
	}
	slices.Sort(found)
	return nil, cli.Usagef("option '--%s' is ambiguous; possibilities: '--%s'", name, strings.Join(found, "' '--"))
}

// takesNext tells whether the argument behind a flag is its value.
func takesNext(flag *pflag.Flag, next string) bool {
	if flag.NoOptDefVal == "" {
		return true
	}
	_, err := truthOf(next)
	_, ours := flag.Value.(*pflagValue)
	return ours && err == nil
}
