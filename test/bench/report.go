package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise/test/bench/table"
)

// measured is what a table's JSON file holds of one scenario.
type measured struct {
	Scenario string `json:"scenario"`
	Date     string `json:"date"`
	Machine  string `json:"machine"`
	result
}

// record replaces the lines of a scenario in the table at path, which is written as PATH.json and PATH.md. What stands
// in PATH.notes.md is appended.
func record(path string, s scenario, r result) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	before, err := load(path + ".json")
	if err != nil {
		return err
	}
	machine := fmt.Sprintf("%d cores, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	now := measured{Scenario: s.name, Date: time.Now().UTC().Format("2006-01-02"), Machine: machine, result: r}
	var all []measured
	for _, known := range scenarios() {
		if known.table != s.table {
			continue
		}
		if known.name == s.name {
			all = append(all, now)
		} else if m, ok := before[known.name]; ok {
			all = append(all, m)
		}
	}
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".json", append(data, '\n'), 0o644); err != nil {
		return err
	}
	for _, p := range r.Pictures {
		file := filepath.Join(filepath.Dir(path), filepath.FromSlash(p.File))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, p.SVG, 0o644)); err != nil {
			return err
		}
	}
	return os.WriteFile(path+".md", []byte(page(path, s.table, all)), 0o644)
}

func load(path string) (map[string]measured, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []measured
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	of := make(map[string]measured)
	for _, m := range all {
		of[m.Scenario] = m
	}
	return of, nil
}

func page(path, of string, all []measured) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Benchmarks: %s\n\nMeasured by `make bench`", of)
	var results []result
	for i, m := range all {
		results = append(results, m.result)
		if i == 0 || m.Date != all[i-1].Date || m.Machine != all[i-1].Machine {
			fmt.Fprintf(&b, "; from %s on: %s on %s", m.Scenario, m.Date, m.Machine)
		}
	}
	b.WriteString(".\n\n" + table.Markdown(results...))
	if notes, err := os.ReadFile(path + ".notes.md"); err == nil {
		b.WriteString("\n" + string(notes))
	}
	return b.String()
}
