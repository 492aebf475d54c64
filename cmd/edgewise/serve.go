package main

import (
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
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
	return s.loadWith(environment, &tritonFlags{})
}

// loadWith is load with Triton's flags below --set.
func (s *settings) loadWith(environment []string, triton *tritonFlags) (config.Config, error) {
	values := map[string]string{}
	for _, text := range s.values {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return config.Config{}, usageError{fmt.Errorf("--set %q: want key=value", text)}
		}
		values[key] = value
	}
	o := config.Options{File: s.file, Env: environment, Ignore: []string{tokenVariable}, Preset: triton.preset()}
	base, err := config.Load(o)
	if err != nil && len(triton.given) > 0 {
		return config.Config{}, err
	}
	if o.Flags, err = triton.with(base, values); err != nil {
		return config.Config{}, err
	}
	return config.Load(o)
}

func (p *program) serve() *cobra.Command {
	var s settings
	var imports []string
	var hint, accounts string
	var triton tritonFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve models until interrupted",
		Long: "Serve opens the store, listens, loads what is to be served and answers until it gets SIGINT or SIGTERM. Then it is no\n" +
			"longer ready, answers what is in flight, unloads and exits. A key of the configuration is taken from --set, else from an\n" +
			"EDGEWISE_ variable (EDGEWISE_HTTP_ADDRESS for http.address), else from the file, else it has its default;\n" +
			"\"edgewise config\" prints them. Triton's own flags, such as --model-repository and --http-port, are taken under their\n" +
			"own names and meanings; docs/guides/triton.md lists them.",
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if hint != "" && hint != demoHints {
				return usageError{fmt.Errorf("--hint %q: want %s", hint, demoHints)}
			}
			if accounts != "" {
				s.values = append(s.values, "auth="+accounts)
			}
			c, err := s.loadWith(p.environment, &triton)
			if err != nil {
				return err
			}
			remove, err := triton.temporary(c)
			if err != nil {
				return err
			}
			defer remove()
			debug.SetGCPercent(200) // tensors are not on the Go heap for long; fewer collections, little more memory
			logger, closeLog, err := p.openLog(c.Log)
			if err != nil {
				return err
			}
			defer closeLog()
			for _, n := range triton.notes {
				logger.Info(n.message, "flag", "--"+n.flag, "reason", n.reason)
			}
			app, err := appliance.New(c, logger)
			if err != nil {
				return err
			}
			return app.Run(cmd.Context(), imports, p.hooks(c, hint))
		},
	}
	s.flags(cmd)
	triton.register(cmd)
	cmd.Flags().StringArrayVar(&imports, "import", nil,
		"import a folder in Triton's repository layout before getting ready; what is stored already is skipped; may be repeated")
	cmd.Flags().StringVar(&accounts, "auth", "",
		"accounts or open; open: whoever reaches the box may do everything, for a closed network or a test")
	cmd.Flags().StringVar(&hint, "hint", "", "print commands to try once ready; \"demo\" for those of the demo's models")
	return cmd
}

// logger writes to standard error.
func (p *program) logger(c config.Log) *slog.Logger { return slog.New(appliance.LogHandler(c, p.err)) }

// openLog returns the logger of a box, and what closes its file.
func (p *program) openLog(c config.Log) (logger *slog.Logger, closeLog func(), err error) {
	if c.File == "" {
		return p.logger(c), func() {}, nil
	}
	f, err := os.OpenFile(c.File, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, nil, edgewise.Errorf("serve", edgewise.Invalid, "log.file: %w", err)
	}
	return slog.New(appliance.LogHandler(c, f)), func() { _ = f.Close() }, nil
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
