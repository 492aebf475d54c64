package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/perf"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/tensorfile"
)

// perfFlags are the flags of "edgewise perf".
type perfFlags struct {
	concurrency, rate, arrivals  string
	shapes, inputs               []string
	data, scale, format, csvFile string
	batch                        int
	asJSON, chart                bool
	options                      perf.Options
}

// perfReport is the JSON form of the result.
type perfReport struct {
	Server string      `json:"server"`
	Model  string      `json:"model"`
	Batch  int         `json:"batch"`
	Form   string      `json:"form"` // of the tensors: binary or json
	Steps  []perf.Step `json:"steps"`
}

func (p *program) perf() *cobra.Command {
	var f perfFlags
	cmd := &cobra.Command{
		Use:   "perf MODEL[:VERSION]",
		Short: "Measure latency and throughput of a model on any server of the v2 protocol",
		Long: "Perf sends one request over and over and reports latency, throughput, errors and where the server says the time went.\n" +
			"--concurrency N: N callers, each waits for its answer. --rate N: N arrivals a second, whether or not the server keeps up;\n" +
			"latency counts from when a request was due, so that a stall is seen by all the requests it delays.\n" +
			"A list is a sweep: 1,2,4 or 1:16:2x (doubling) or 100:500:100 (adding).\n" +
			"\n  edgewise perf mlp --concurrency 1:16:2x\n  edgewise perf mlp --rate 100,200 --csv rates.csv\n" +
			"  edgewise perf ocr_detect --shape x:1,3,320,320 --data random\n",
		Args: cli.Arguments("MODEL[:VERSION]"),
		RunE: p.Boxed(func(ctx context.Context, box *client.Client, args []string) error {
			id, err := cli.ModelID(args[0])
			if err != nil {
				return err
			}
			loads, err := f.loads()
			if err != nil {
				return cli.Usage(err)
			}
			return p.runPerf(ctx, box, id, &f, loads)
		}),
	}
	f.register(cmd)
	return cmd
}

func (f *perfFlags) register(cmd *cobra.Command) {
	flags, o := cmd.Flags(), &f.options
	flags.StringVar(&f.concurrency, "concurrency", "", fmt.Sprintf("closed loop: callers, each 1 to %d; default 1", perf.MaxConcurrency))
	flags.StringVar(&f.rate, "rate", "", fmt.Sprintf("open loop: arrivals a second, each %g to %d", perf.MinRate, perf.MaxRate))
	flags.StringVar(&f.arrivals, "arrivals", "poisson", "spacing of the arrivals: poisson or constant")
	flags.IntVar(&o.MaxConnections, "max-connections", 256, fmt.Sprintf("of an open loop, 1 to %d", perf.MaxConcurrency))
	flags.StringArrayVar(&f.shapes, "shape", nil, "shape of an input, batch included, as name:1,3,224,224; may be repeated")
	flags.IntVar(&f.batch, "batch", 1, fmt.Sprintf("size of a leading dimension of any size, 1 to %d", perf.MaxBatch))
	flags.StringArrayVarP(&f.inputs, "input", "i", nil, "an input from a file, as name=FILE; may be repeated")
	flags.StringVar(&f.data, "data", "random", "inputs that are not from files: zero or random")
	flags.Uint64Var(&o.Seed, "seed", 1, "of random inputs and arrivals")
	flags.StringVar(&f.scale, "scale", "raw", "range of a picture's samples: raw (0..255), unit (0..1) or signed (-1..1)")
	flags.StringVar(&f.format, "format", "", "layout of a picture: FORMAT_NHWC or FORMAT_NCHW; default: what the shape tells")
	flags.BoolVar(&f.asJSON, "json", false, "tensors as JSON in both directions instead of binary")
	flags.DurationVar(&o.Warmup, "warmup", 2*time.Second, fmt.Sprintf("sent and not counted before each step, up to %v", perf.MaxWarmup))
	flags.DurationVar(&o.Window, "window", 3*time.Second,
		fmt.Sprintf("length of a measurement window, %v to %v", perf.MinWindow, perf.MaxWindow))
	flags.Float64Var(&o.Stability, "stability", 10, "percent that the last three windows may differ from their mean")
	flags.IntVar(&o.MaxWindows, "max-windows", 10, fmt.Sprintf("windows until a step is given up as not stable, 3 to %d", perf.MaxWindows))
	flags.DurationVar(&o.Timeout, "timeout", 30*time.Second, fmt.Sprintf("for one request, %v to %v", perf.MinTimeout, perf.MaxTimeout))
	flags.StringVar(&f.csvFile, "csv", "", "also write the result to this file, as comma-separated values")
	flags.BoolVar(&f.chart, "chart", false, "draw bars also when the output is no terminal")
}

// loads checks the flags that need no server and returns the steps.
func (f *perfFlags) loads() ([]perf.Load, error) {
	switch f.arrivals {
	case "poisson":
		f.options.Arrivals = perf.Poisson
	case "constant":
		f.options.Arrivals = perf.Constant
	default:
		return nil, fmt.Errorf("--arrivals %q: want poisson or constant", f.arrivals)
	}
	if f.data != "zero" && f.data != "random" {
		return nil, fmt.Errorf("--data %q: want zero or random", f.data)
	}
	if f.batch < 1 || f.batch > perf.MaxBatch {
		return nil, fmt.Errorf("--batch %d: want 1 to %d", f.batch, perf.MaxBatch)
	}
	if err := f.options.Check(); err != nil {
		return nil, err
	}
	switch {
	case f.rate != "" && f.concurrency != "":
		return nil, fmt.Errorf("--rate and --concurrency are two kinds of load: give one of them")
	case f.rate != "":
		loads, err := perf.ParseRates(f.rate)
		return loads, flagError("--rate", err)
	case f.concurrency != "":
		loads, err := perf.ParseConcurrency(f.concurrency)
		return loads, flagError("--concurrency", err)
	}
	return []perf.Load{{Concurrency: 1}}, nil
}

func flagError(flag string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", flag, err)
}

// runPerf makes the request, tries it once and measures.
func (p *program) runPerf(ctx context.Context, box *client.Client, id edgewise.ModelID, f *perfFlags, loads []perf.Load) error {
	inputs, err := f.making()
	if err != nil {
		return err
	}
	metadata, err := box.ModelMetadata(ctx, id)
	if err != nil {
		return err
	}
	if inputs.Given, err = f.files(metadata); err != nil {
		return err
	}
	report := &perfReport{Server: p.Server, Model: id.Name, Form: f.form().String(), Steps: []perf.Step{}}
	req := &edgewise.Request{Model: id}
	if req.Inputs, report.Batch, err = inputs.Make(metadata); err != nil {
		return cli.Usage(err)
	}
	access, err := p.Credentials()
	if err != nil {
		return err
	}
	request, err := perf.NewRequest(p.Server, req, f.form(), perf.Access{Token: access.Token, Authorities: access.Authorities})
	if err != nil {
		return err
	}
	if err := request.Try(ctx, f.options.Timeout); err != nil {
		return err
	}
	f.options.Batch = report.Batch
	f.options.Statistics = func(ctx context.Context) (*kserve.StatisticsBody, error) { return box.Statistics(ctx, id) }
	return p.measure(ctx, request, f, loads, report)
}

func (f *perfFlags) form() kserve.Form {
	if f.asJSON {
		return kserve.JSON
	}
	return kserve.Binary
}

// making returns what the flags say of the inputs that are not from files.
func (f *perfFlags) making() (perf.Inputs, error) {
	in := perf.Inputs{Batch: f.batch, Random: f.data == "random", Seed: f.options.Seed, Shapes: map[string]edgewise.Shape{}}
	for _, text := range f.shapes {
		name, shape, err := perf.ParseShape(text)
		if err != nil {
			return in, cli.Usagef("--shape: %w", err)
		}
		in.Shapes[name] = shape
	}
	return in, nil
}

func (f *perfFlags) files(m *kserve.ModelMetadata) ([]edgewise.Tensor, error) {
	scale, err := tensorfile.ParseScale(f.scale)
	if err != nil {
		return nil, cli.Usagef("--scale: %w", err)
	}
	return cli.ReadInputs(f.inputs, m, tensorfile.Options{Format: edgewise.TensorFormat(f.format), Scale: scale})
}

// measure runs the sweep and writes what was measured, also when ctx ends it early.
func (p *program) measure(ctx context.Context, request *perf.Request, f *perfFlags, loads []perf.Load, report *perfReport) error {
	file, err := createCSV(f.csvFile)
	if err != nil {
		return err
	}
	done := func(perf.Step) {}
	if p.Output != "json" {
		fmt.Fprintf(p.Out, "model %q, batch %d, %s tensors\n\n", report.Model, report.Batch, report.Form)
		perf.WriteHead(p.Out)
		done = func(s perf.Step) { perf.WriteLine(p.Out, s) }
	}
	steps, err := perf.Run(ctx, request, f.options, loads, done)
	report.Steps = append(report.Steps, steps...)
	if saving := saveCSV(file, report.Steps); err == nil {
		err = saving
	}
	if err != nil {
		return err
	}
	return p.Print(report, func(w io.Writer) {
		if len(steps) == 0 {
			fmt.Fprintln(w, "interrupted before anything was measured")
			return
		}
		fmt.Fprintln(w)
		perf.WriteServer(w, steps)
		if f.chart || cli.IsTerminal(w) {
			fmt.Fprintln(w)
			perf.WriteChart(w, steps)
		}
	})
}

// createCSV makes the file before the measurement, so that a wrong path costs no time. It returns nil without a path.
func createCSV(path string) (*os.File, error) {
	if path == "" {
		return nil, nil
	}
	return os.Create(path)
}

func saveCSV(file *os.File, steps []perf.Step) error {
	if file == nil {
		return nil
	}
	err := perf.WriteCSV(file, steps)
	if closing := file.Close(); err == nil {
		err = closing
	}
	return err
}
