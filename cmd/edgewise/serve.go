package main

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise/appliance"
	"github.com/edgewise-ai/edgewise/appliance/config"
)

// settings are the flags that lead to a configuration.
type settings struct {
	file   string
	values []string // key=value
}

func (s *settings) flags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.file, "config", "c", "", "configuration file (YAML or JSON); default: "+config.FileVariable+", else none")
	cmd.Flags().StringArrayVar(&s.values, "set", nil, "set a key of the configuration, as key=value; may be repeated")
}

// load reads flags over environment over file over defaults.
func (s *settings) load(environment []string) (config.Config, error) {
	values := map[string]string{}
	for _, text := range s.values {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return config.Config{}, usageError{fmt.Errorf("--set %q: want key=value", text)}
		}
		values[key] = value
	}
	return config.Load(config.Options{File: s.file, Env: environment, Flags: values, Ignore: []string{tokenVariable}})
}

func (p *program) serve() *cobra.Command {
	var s settings
	var imports []string
	var hint, accounts string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve models until interrupted",
		Long: "Serve opens the store, listens, loads what is to be served and answers until it gets SIGINT or SIGTERM. Then it is no\n" +
			"longer ready, answers what is in flight, unloads and exits. A key of the configuration is taken from --set, else from an\n" +
			"EDGEWISE_ variable (EDGEWISE_HTTP_ADDRESS for http.address), else from the file, else it has its default;\n" +
			"\"edgewise config\" prints them.",
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if accounts != "" {
				s.values = append(s.values, "auth="+accounts)
			}
			c, err := s.load(p.environment)
			if err != nil {
				return err
			}
			debug.SetGCPercent(200) // tensors are not on the Go heap for long; fewer collections, little more memory
			app, err := appliance.New(c, p.logger(c.Log))
			if err != nil {
				return err
			}
			return app.Run(cmd.Context(), imports, p.hooks(c, hint))
		},
	}
	s.flags(cmd)
	cmd.Flags().StringArrayVar(&imports, "import", nil, "import a folder in Triton's repository layout before getting ready; what is stored already is skipped; may be repeated")
	cmd.Flags().StringVar(&accounts, "auth", "", "accounts or open; open: whoever reaches the box may do everything, for a closed network or a test")
	cmd.Flags().StringVar(&hint, "hint", "", "print commands to try once ready; \"demo\" for those of the demo's models")
	return cmd
}

// logger writes to standard error, as text for people or as JSON for machines.
func (p *program) logger(c config.Log) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Level)) // validated with the configuration
	options := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(p.err, options))
	}
	return slog.New(slog.NewTextHandler(p.err, options))
}

// configuration prints the keys of the configuration.
func (p *program) configuration() *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check the configuration and print every key with its value in force",
		Args:  arguments(),
		RunE: func(*cobra.Command, []string) error {
			c, err := s.load(p.environment)
			if err != nil {
				return err
			}
			if p.output != "json" {
				return config.Write(p.out, c)
			}
			return p.print(c, nil)
		},
	}
	s.flags(cmd)
	return cmd
}
