package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/backend"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/settings"
	"github.com/edgewise-ai/edgewise/gpu"
)

func (p *program) doctor() *cobra.Command {
	var s settings.Settings
	var e appliance.Examination
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what was found on this machine, and examine or repair the store",
		Long: "Doctor says which runtime it finds and whether the store is whole. The box must not be serving from the same data folder.\n" +
			"--verify reads every file and compares its digest. --repair rebuilds the catalog from the manifests, mends what has a\n" +
			"second copy, and moves what cannot be mended aside with its reason. The box's accounts, drafts and settings are examined\n" +
			"and mended too, from their snapshots where need be. Nothing is deleted without a copy in quarantine.",
		Args: cli.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.Load(p.Environment)
			if err != nil {
				return err
			}
			d, err := appliance.Examine(cmd.Context(), c, e, p.logger(config.Log{Level: "warn"}))
			if d != nil {
				if printing := p.Print(d, func(w io.Writer) { diagnosis(w, d) }); printing != nil {
					return printing
				}
			}
			if err != nil {
				return err
			}
			if e.Repair {
				return nil
			}
			return d.Healthy()
		},
	}
	s.Register(cmd)
	cmd.Flags().BoolVar(&e.Verify, "verify", false, "read every file and compare its digest")
	cmd.Flags().BoolVar(&e.Repair, "repair", false, "mend what can be mended")
	return cmd
}

func diagnosis(w io.Writer, d *appliance.Diagnosis) {
	fmt.Fprintf(w, "edgewise   %s on %s, %d cores\n", d.Version, d.Platform, d.Cores)
	if d.Runtime != "" {
		fmt.Fprintf(w, "runtime    %s\n", d.Runtime)
	} else {
		fmt.Fprintf(w, "runtime    %s\n", d.Missing)
	}
	gpus(w, d.GPU)
	for _, b := range d.Backends {
		fmt.Fprintf(w, "backend    %s\n", backend.Line(b))
	}
	fmt.Fprintf(w, "data       %s\n", d.DataDir)
	if d.Usage != nil {
		fmt.Fprintf(w, "disk       %s in %d files, %s free, %s of it kept free\n",
			humanize.IBytes(uint64(d.Usage.Bytes)), d.Usage.Blobs, humanize.IBytes(uint64(d.Usage.Free)), humanize.IBytes(uint64(d.Usage.Reserve)))
	}
	if d.Report != nil {
		fmt.Fprintf(w, "store      %s", d.Report)
	}
	if d.Problem != "" {
		fmt.Fprintf(w, "store      %s\n", d.Problem)
	}
}

// gpus says what was found of GPUs and of what lies between them and models.
func gpus(w io.Writer, r *gpu.Report) {
	if r == nil {
		return
	}
	if r.Reason != "" {
		fmt.Fprintf(w, "gpu        none used: %s\n", r.Reason)
	}
	for _, d := range r.Devices {
		state := "used, " + humanize.IBytes(uint64(d.Budget)) + " for models"
		if !d.Used {
			state = "not used: " + d.Reason
		}
		what := "compute capability " + d.Capability
		if d.Device.Kind == edgewise.Vulkan {
			what = fmt.Sprintf("%s, %s, driver %s", d.Vendor, d.Type, d.Driver)
		}
		fmt.Fprintf(w, "%-10s %s, %s, %s; %s\n", d.Name, d.Description, what,
			humanize.IBytes(uint64(d.MemoryTotal)), state)
	}
	for _, line := range [][2]string{
		{"board", r.Board},
		{"driver", r.Driver},
		{"provider", r.Provider},
		{"code", r.Code},
		{"tensorrt", r.TensorRT},
	} {
		if line[1] != "" {
			fmt.Fprintf(w, "%-10s %s\n", line[0], line[1])
		}
	}
	for _, d := range r.Vulkan {
		fmt.Fprintf(w, "vulkan     %s: %s\n", d.Manifest, cmp.Or(d.Problem, fmt.Sprintf("%d devices, %s", len(d.Devices), d.Loader)))
	}
	for _, l := range r.Libraries {
		where := l.Path
		if l.Problem != "" {
			where = l.Problem
		}
		if l.Problem != "" && l.Optional {
			where += "; models that need it are refused"
		}
		fmt.Fprintf(w, "library    %s: %s\n", l.Name, where)
	}
}

func (p *program) version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cli.Arguments(),
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": appliance.Version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			return p.Print(v, func(w io.Writer) {
				fmt.Fprintf(w, "edgewise %s (%s, %s)\n", v["version"], v["go"], v["platform"])
			})
		},
	}
}
