// Command bench measures the appliance against the raw limit of the same machine in the same run, prints a table of
// ratios and writes it as Markdown and JSON.
//
// A shared machine's two cores are sometimes two threads of one. So both sides of a ratio are measured in turn, a
// probe stands before and after every round, rounds without two real cores are thrown away, and medians are reported.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// figure is one line of the table.
type figure struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Goal   string  `json:"goal"`
	Met    bool    `json:"met"`
	Detail string  `json:"detail"` // absolute figures behind the ratio
}

// scenario measures one or more figures.
type scenario struct {
	name string
	run  func(dir string) ([]figure, error)
}

func main() {
	rounds := flag.Int("rounds", 9, "rounds of every interleaved measurement")
	only := flag.String("only", "", "run only the scenario of this name")
	out := flag.String("out", "docs/benchmarks/foundation", "write PATH.md and PATH.json; empty: only print")
	flag.Parse()
	scenarios := []scenario{
		{"serve", func(dir string) ([]figure, error) { return serveFigures(dir, *rounds) }},
		{"json", func(string) ([]figure, error) { return jsonFigures(*rounds) }},
		{"upload", func(dir string) ([]figure, error) { return uploadFigures(dir, max(3, *rounds/3)) }},
		{"isolation", func(dir string) ([]figure, error) { return isolationFigures(dir, *rounds) }},
		{"start", startFigures},
		{"idle", idleFigures},
	}
	var figures []figure
	for _, s := range scenarios {
		if *only != "" && *only != s.name {
			continue
		}
		fmt.Fprintf(os.Stderr, "measuring %s\n", s.name)
		measured, err := measure(s)
		if err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", s.name, err)
			os.Exit(1)
		}
		figures = append(figures, measured...)
	}
	table := tableOf(figures)
	fmt.Print(table)
	if *out != "" && *only == "" {
		if err := save(*out, table, figures); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
	}
}

// measure runs a scenario in a folder of its own, on the disk of the checkout.
func measure(s scenario) ([]figure, error) {
	if err := os.MkdirAll("dist", 0o755); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("dist", "bench-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	return s.run(dir)
}

func tableOf(figures []figure) string {
	var b strings.Builder
	b.WriteString("| figure | measured | goal | met | behind it |\n|---|---|---|---|---|\n")
	for _, f := range figures {
		met := "yes"
		if !f.Met {
			met = "**no**"
		}
		fmt.Fprintf(&b, "| %s | %.3g %s | %s | %s | %s |\n", f.Name, f.Value, f.Unit, f.Goal, met, f.Detail)
	}
	return b.String()
}

func save(path, table string, figures []figure) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	head := fmt.Sprintf("# Benchmarks: foundation\n\nMeasured by `make bench` on %s, %d cores, %s/%s, %s.\n\n",
		time.Now().UTC().Format("2006-01-02"), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	if notes, err := os.ReadFile(path + ".notes.md"); err == nil {
		table += "\n" + string(notes)
	}
	if err := os.WriteFile(path+".md", []byte(head+table), 0o644); err != nil {
		return err
	}
	data, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path+".json", append(data, '\n'), 0o644)
}

// atLeast makes a figure that has to reach a goal.
func atLeast(name string, value, goal float64, unit, detail string) figure {
	return figure{name, value, unit, fmt.Sprintf(">= %g", goal), value >= goal, detail}
}

// atMost makes a figure that has to stay below a goal.
func atMost(name string, value, goal float64, unit, detail string) figure {
	return figure{name, value, unit, fmt.Sprintf("<= %g", goal), value <= goal, detail}
}
