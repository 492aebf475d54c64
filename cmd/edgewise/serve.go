package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/settings"
)

func (p *program) serve() *cobra.Command {
	var s settings.Settings
	var imports []string
	var hint, accounts string
	var triton settings.Triton
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve models until interrupted",
		Long: "Serve opens the store, listens, loads what is to be served and answers until it gets SIGINT or SIGTERM. Then it is no\n" +
			"longer ready, answers what is in flight, unloads and exits. A key of the configuration is taken from --set, else from an\n" +
			"EDGEWISE_ variable (EDGEWISE_HTTP_ADDRESS for http.address), else from the file, else it has its default;\n" +
			"\"edgewise config\" prints them. Triton's own flags, such as --model-repository and --http-port, are taken under their\n" +
			"own names and meanings; docs/guides/triton.md lists them.",
		Args: cli.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if hint != "" && hint != demoHints {
				return cli.Usagef("--hint %q: want %s", hint, demoHints)
			}
			if accounts != "" {
				s.Set("auth", accounts)
			}
			c, err := s.LoadWith(p.Environment, &triton)
			if err != nil {
				return err
			}
			remove, err := triton.Temporary(c)
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
			for _, n := range triton.Notes {
				logger.Info(n.Message, "flag", "--"+n.Flag, "reason", n.Reason)
			}
			app, err := appliance.New(c, logger)
			if err != nil {
				return err
			}
			hooks := p.hooks(c, hint)
			hooks.Hurry = secondSignal(cmd.Context())
			return app.Run(cmd.Context(), imports, hooks)
		},
	}
	s.Register(cmd)
	triton.Register(cmd)
	cmd.Flags().StringArrayVar(&imports, "import", nil,
		"import a folder in Triton's repository layout before getting ready; what is stored already is skipped; may be repeated")
	cmd.Flags().StringVar(&accounts, "auth", "",
		"accounts or open; open: whoever reaches the box may do everything, for a closed network or a test")
	cmd.Flags().StringVar(&hint, "hint", "", "print commands to try once ready; \"demo\" for those of the demo's models")
	return cmd
}

// secondSignal returns what the signal after the one that ends ctx comes from.
func secondSignal(ctx context.Context) <-chan os.Signal {
	signals := make(chan os.Signal, 1)
	context.AfterFunc(ctx, func() { signal.Notify(signals, os.Interrupt, syscall.SIGTERM) })
	return signals
}

// logger writes to standard error.
func (p *program) logger(c config.Log) *slog.Logger { return slog.New(appliance.LogHandler(c, p.Err)) }

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
	var s settings.Settings
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check the configuration and print every key with its value in force",
		Args:  cli.Arguments(),
		RunE: func(*cobra.Command, []string) error {
			c, err := s.Load(p.Environment)
			if err != nil {
				return err
			}
			if p.Output != "json" {
				return config.Write(p.Out, c)
			}
			return p.Print(c, nil)
		},
	}
	s.Register(cmd)
	return cmd
}
