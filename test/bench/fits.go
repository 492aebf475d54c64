package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/edgewise-ai/edgewise/test/bench/crowd"
)

// fitScenarios are those of the table fits, at full size and at a tenth of it.
func fitScenarios() (all []scenario) {
	for _, size := range []struct {
		prefix string
		scale  int64
	}{{"", 1}, {"tenth/", 10}} {
		for _, skew := range []float64{0.8, 1, 1.2, 2} {
			all = append(all, scenario{"fits", fmt.Sprintf("%szipf/%g", size.prefix, skew), crowdFigures(size.scale, crowd.Shared(skew))})
		}
		all = append(all, scenario{"fits", size.prefix + "on demand", crowdFigures(size.scale, crowd.Demanded)},
			scenario{"fits", size.prefix + "pinned", crowdFigures(size.scale, crowd.Pinned)})
	}
	return append(all,
		scenario{"fits", "all loaded", crowdFigures(1, crowd.AllLoaded, "engine.isolation=none", "engine.max_memory_bytes=1TiB")})
}

// crowdFigures measure a box in a control group with more models than fit into it.
func crowdFigures(scale int64, measure func(*crowd.Crowd) (crowd.Report, error), settings ...string) func(*run) {
	return func(r *run) {
		plan := crowd.Plan{Requests: r.requests, Within: r.within, Scale: scale}
		c, err := crowd.New(r.dir, plan)
		r.check(err)
		r.later(func() { _ = c.Group.Close() })
		program := filepath.Join(r.dir, "box")
		r.check(os.WriteFile(program, []byte(c.Group.Script(builtProgram)), 0o755))
		b := r.startBuild(program, anywhere, nil, filepath.Join(r.dir, "data"), append(plan.Settings(), settings...)...)
		c.Client, c.PID = b.client, b.cmd.Process.Pid
		report, err := measure(c)
		r.check(err)
		for _, f := range report.Figures {
			r.report(figure(f))
		}
		if report.Rows != nil {
			r.Grids = append(r.Grids, grid{Title: report.Title, Columns: crowd.Columns(), Rows: report.Rows})
		}
	}
}
