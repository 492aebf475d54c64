package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/step"
	"github.com/edgewise-ai/edgewise/wasm"
)

func (p *program) step() *cobra.Command {
	cmd := cli.Group("step", "Make, build, test and measure WebAssembly steps, without a box",
		p.stepNew(), p.stepBuild(), p.stepRun(), p.stepTest(), p.stepBench())
	cmd.Long = "A step turns tensors into tensors, in a sandbox: work before, between and after models.\n" +
		"\n  edgewise step new --lang c double && cd double\n  edgewise step build && edgewise step test && edgewise step bench\n" +
		"  edgewise model push double model.wasm\n"
	return cmd
}

func (p *program) stepNew() *cobra.Command {
	var language string
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Make a folder NAME with a step that builds, and a case that passes",
		Args:  cli.Arguments("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := step.ParseLanguage(language)
			if err != nil {
				return cli.Usagef("--lang: %w", err)
			}
			if err := step.New(args[0], args[0], l); err != nil {
				return err
			}
			return p.Print(map[string]string{
				"step": args[0], "language": l.String(),
				"source": filepath.Join(args[0], l.Source()),
			}, func(w io.Writer) {
				fmt.Fprintf(w, "made %s; next:\n  cd %s\n", filepath.Join(args[0], l.Source()), args[0])
				if l == step.AssemblyScript {
					fmt.Fprintln(w, "  npm install")
				}
				fmt.Fprintln(w, "  edgewise step build && edgewise step test")
			})
		},
	}
	cmd.Flags().StringVar(&language, "lang", "c", "c, rust, go or assemblyscript")
	return cmd
}

func (p *program) stepBuild() *cobra.Command {
	var target, modules string
	cmd := &cobra.Command{
		Use:   "build [DIR]",
		Short: "Compile the step in DIR to DIR/" + step.ModuleFile,
		Args:  cli.Arguments("[DIR]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := folderOf(args)
			if target == "" {
				target = filepath.Join(dir, step.ModuleFile)
			}
			start := time.Now()
			if err := step.Build(cmd.Context(), dir, target, step.Toolchain{Environment: p.Environment, Modules: modules}); err != nil {
				return err
			}
			info, err := os.Stat(target)
			if err != nil {
				return err
			}
			return p.Print(map[string]any{"module": target, "bytes": info.Size()}, func(w io.Writer) {
				fmt.Fprintf(w, "%s: %d bytes, built in %.1f s\n", target, info.Size(), time.Since(start).Seconds())
			})
		},
	}
	cmd.Flags().StringVar(&target, "target", "", "where the module goes; default DIR/"+step.ModuleFile)
	cmd.Flags().StringVar(&modules, "modules", "",
		"a folder with node_modules, for AssemblyScript; default: the step's own, and the folders above it")
	return cmd
}

// folderOf returns the step's folder of a command line: the working folder where it names none.
func folderOf(args []string) string {
	if len(args) == 0 {
		return "."
	}
	return args[0]
}

// stepFlags are how a step is run: what it may use, and on which cases.
type stepFlags struct {
	step.Limits
	cases string // folder; empty: the step's own
}

func runFlags(cmd *cobra.Command) *stepFlags {
	l := &stepFlags{}
	cmd.Flags().StringVar(&l.cases, "cases", "", "a folder of cases; default: DIR/golden")
	cmd.Flags().Int64Var(&l.Memory, "max-memory", wasm.DefaultMaxMemory, "bytes of the step's memory, as the box has it")
	cmd.Flags().DurationVar(&l.Timeout, "timeout", 30*time.Second, "for one request")
	return l
}

// withStep loads the step of the command line, and runs f with its cases.
func withStep(cmd *cobra.Command, args []string, l *stepFlags, f func(*step.Loaded, []step.Case) error) error {
	dir := folderOf(args)
	if l.cases == "" {
		l.cases = filepath.Join(dir, step.CasesFolder)
	}
	cases, err := step.Cases(l.cases)
	if err != nil {
		return err
	}
	loaded, err := step.Load(cmd.Context(), dir, l.Limits)
	if err != nil {
		return err
	}
	err = f(loaded, cases)
	if closing := loaded.Close(); err == nil {
		err = closing
	}
	return err
}

func (p *program) stepTest() *cobra.Command {
	var flags *stepFlags
	var record bool
	cmd := &cobra.Command{
		Use:   "test [DIR]",
		Short: "Run the built step in DIR on its cases, DIR/golden/*.json",
		Long:  "Test runs " + step.ModuleFile + " as the box does, with the same limits, on each case, and says what it used.\n\n" + caseHelp,
		Args:  cli.Arguments("[DIR]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withStep(cmd, args, flags, func(l *step.Loaded, cases []step.Case) error {
				if record {
					if err := p.recordCases(cmd.Context(), l, cases); err != nil {
						return err
					}
				}
				return p.testCases(cmd.Context(), l, cases)
			})
		},
	}
	cmd.Flags().BoolVar(&record, "record", false, "first write what the step answers into each case that has neither a response nor an error")
	flags = runFlags(cmd)
	return cmd
}

func (p *program) recordCases(ctx context.Context, l *step.Loaded, cases []step.Case) error {
	for i := range cases {
		written, err := l.Record(ctx, &cases[i])
		if err != nil {
			return err
		}
		if written {
			fmt.Fprintf(p.Err, "recorded the answer of case %q: look at it before you trust it\n", cases[i].Name)
		}
	}
	return nil
}

// testCases runs all cases; the error names those that failed.
func (p *program) testCases(ctx context.Context, l *step.Loaded, cases []step.Case) error {
	outcomes := make([]step.Outcome, len(cases))
	var failed []string
	for i := range cases {
		var err error
		if outcomes[i], err = l.Check(ctx, &cases[i]); err != nil {
			return err
		}
		if outcomes[i].Problem != "" {
			failed = append(failed, strconv.Quote(cases[i].Name))
		}
	}
	if err := p.Print(outcomes, func(w io.Writer) { writeOutcomes(w, outcomes) }); err != nil {
		return err
	}
	if len(failed) > 0 {
		return edgewise.Errorf("step.Test", edgewise.Guest, "%d of %d cases failed: %s", len(failed), len(cases), strings.Join(failed, ", "))
	}
	return nil
}

const caseHelp = `A case is a JSON file:
  {"request": {"inputs": [...], "parameters": {...}},   as the box takes it in POST /v2/models/NAME/infer
   "files": {"image": "cat.jpg"},                       inputs by name, from files beside the case, as "edgewise infer -i"
                                                        reads them: .npy, .json, .bin, a picture, a .wav sound
   "models": {"other": {"response": {...}}},            what models answer that the step calls
   "response": {"outputs": [...]}, "tolerance": 1e-5,   what must come back, and how far numbers may be off: absolutely, or
                                                        of the value where that is above 1
   "error": "part of the message",                      instead of a response
   "log": ["part of a line"]}
With neither a response nor an error a case fails, until --record has written the step's answer into it.
`

func writeOutcomes(w io.Writer, outcomes []step.Outcome) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "case\tfuel\tmemory\tguest\thost calls\tresult")
	for _, o := range outcomes {
		result := "ok"
		if o.Problem != "" {
			result = "FAILED: " + o.Problem
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%v\t%v\t%s\n", o.Case, o.Used.Fuel, kibibytes(o.Used.Memory), short(o.Used.Guest),
			short(o.Used.Host), result)
	}
	table.Flush()
	for _, o := range outcomes {
		for _, line := range o.Log {
			fmt.Fprintf(w, "log of %s: %s\n", o.Case, line)
		}
	}
}

func kibibytes(bytes int64) string { return fmt.Sprintf("%d KiB", bytes>>10) }

// short rounds a duration to what a reader compares.
func short(d time.Duration) time.Duration {
	if d < time.Millisecond {
		return d.Round(100 * time.Nanosecond)
	}
	return d.Round(10 * time.Microsecond)
}

func (p *program) stepBench() *cobra.Command {
	var flags *stepFlags
	var each time.Duration
	cmd := &cobra.Command{
		Use:   "bench [DIR]",
		Short: "Measure the built step in DIR on each of its cases that answers",
		Long:  "Bench runs each case of DIR/golden that has a response again and again, one request at a time.",
		Args:  cli.Arguments("[DIR]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if each < step.MinBenchTime || each > step.MaxBenchTime {
				return cli.Usagef("--time %v: want %v to %v", each, step.MinBenchTime, step.MaxBenchTime)
			}
			return withStep(cmd, args, flags, func(l *step.Loaded, cases []step.Case) error {
				measured := []step.Measured{}
				for i := range cases {
					if cases[i].Error != "" {
						continue
					}
					m, err := l.Bench(cmd.Context(), &cases[i], each)
					if err != nil {
						return err
					}
					measured = append(measured, m)
				}
				return p.Print(measured, func(w io.Writer) { writeMeasured(w, measured) })
			})
		},
	}
	cmd.Flags().DurationVar(&each, "time", time.Second, fmt.Sprintf("for each case, %v to %v", step.MinBenchTime, step.MaxBenchTime))
	flags = runFlags(cmd)
	return cmd
}

func writeMeasured(w io.Writer, measured []step.Measured) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "case\truns\tp50\tp90\tp99\tguest\thost calls\tcopy in\tfuel\tmemory")
	for _, m := range measured {
		fmt.Fprintf(table, "%s\t%d\t%v\t%v\t%v\t%v\t%v\t%v\t%d\t%s\n", m.Case, m.Runs, short(m.P50), short(m.P90), short(m.P99),
			short(m.Used.Guest), short(m.Used.Host), short(m.Used.Copy), m.Used.Fuel, kibibytes(m.Used.Memory))
	}
	table.Flush()
}
