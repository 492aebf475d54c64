// Package settings reads the flags of the command line that lead to a configuration: keys of our own, and Triton's flags.
package settings

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
)

// Settings are the flags that lead to a configuration.
type Settings struct {
	file   string
	values []string // key=value
}

// Register adds the flags to a command.
func (s *Settings) Register(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.file, "config", "c", "", "configuration file (YAML or JSON); default: "+config.FileVariable+", else none")
	cmd.Flags().StringArrayVar(&s.values, "set", nil, "set a key of the configuration, as key=value; may be repeated")
}

// Set sets a key, as a flag does that comes last.
func (s *Settings) Set(key, value string) { s.values = append(s.values, key+"="+value) }

// Load reads flags over environment over file over defaults.
func (s *Settings) Load(environment []string) (config.Config, error) {
	return s.LoadWith(environment, &Triton{})
}

// LoadWith is Load with Triton's flags below --set.
func (s *Settings) LoadWith(environment []string, triton *Triton) (config.Config, error) {
	values := map[string]string{}
	for _, text := range s.values {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return config.Config{}, cli.Usagef("--set %q: want key=value", text)
		}
		values[key] = value
	}
	o := config.Options{File: s.file, Env: environment, Ignore: []string{cli.TokenVariable}, Preset: triton.preset()}
	base, err := config.Load(o)
	if err != nil && len(triton.given) > 0 {
		return config.Config{}, err
	}
	if o.Flags, err = triton.with(base, values); err != nil {
		return config.Config{}, err
	}
	return config.Load(o)
}
