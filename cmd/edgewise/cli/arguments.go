package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/compare"
)

// UsageError marks errors of the command line itself.
type UsageError struct{ error }

// Usage marks an error as one of the command line itself.
func Usage(err error) error { return UsageError{err} }

// Usagef returns an error of the command line itself.
func Usagef(format string, values ...any) error { return Usage(fmt.Errorf(format, values...)) }

// Arguments checks the number of arguments and names them when it is wrong. One in brackets, behind all others, may be
// left out.
func Arguments(names ...string) cobra.PositionalArgs {
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
		return Usagef("%s, got %d; see %s --help", want, len(args), cmd.CommandPath())
	}
}

// Group is a command that only has others below it.
func Group(name, short string, below ...*cobra.Command) *cobra.Command {
	group := &cobra.Command{Use: name, Short: short, Args: cobra.ArbitraryArgs, RunE: unknownCommand}
	group.AddCommand(below...)
	return group
}

// unknownCommand runs a command that only has others below it: none of them was named.
func unknownCommand(cmd *cobra.Command, args []string) error {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	want := strings.Join(names, ", ")
	if len(args) == 0 {
		return Usagef("want a command below %q: one of %s", cmd.CommandPath(), want)
	}
	return Usagef("unknown command %q for %q: want one of %s; see %s --help", args[0], cmd.CommandPath(),
		want, cmd.CommandPath())
}

// ModelID reads NAME or NAME:VERSION.
func ModelID(text string) (edgewise.ModelID, error) {
	name, number, versioned := strings.Cut(text, ":")
	id := edgewise.ModelID{Name: name}
	if err := edgewise.CheckName(name); err != nil {
		return id, Usage(err)
	}
	if !versioned {
		return id, nil
	}
	var err error
	if id.Version, err = strconv.ParseInt(number, 10, 64); err != nil || id.Version < 1 {
		return id, Usagef("%q: want NAME or NAME:VERSION, the version a number above 0", text)
	}
	return id, nil
}

// ReadRules reads rules of comparison from a file, none for "".
func ReadRules(path string) (rules []admin.CompareRule, err error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &rules); err != nil {
		return nil, Usagef("--rules %s: want a JSON array of rules: %w", path, err)
	}
	return rules, compare.Check(rules)
}
