package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise/cmd/edgewise/perf"
)

// toolsDir is where "make peers-tools" puts vegeta and ghz; wrk is Debian's.
const toolsDir = ".cache/peers"

// runTool runs a load generator and returns what it prints. What it says of errors is in the error.
func runTool(name string, arguments ...string) ([]byte, error) {
	cmd := exec.Command(name, arguments...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", name, err, said.Bytes())
	}
	return out, err
}

// wrkScript has wrk send a request and say what it cannot say by itself: percentiles with a digit behind the point.
const wrkScript = `wrk.method = "POST"
%s
local file = assert(io.open(%q, "rb"))
wrk.body = file:read("*a")
file:close()
function done(summary, latency)
  local e = summary.errors
  print(string.format('{"requests":%%d,"duration_us":%%d,"errors":%%d,"p10_us":%%d,"p50_us":%%d,' ..
    '"p90_us":%%d,"p99_us":%%d,"p99.9_us":%%d}',
    summary.requests, summary.duration, e.connect + e.read + e.write + e.status + e.timeout, latency:percentile(10),
    latency:percentile(50), latency:percentile(90), latency:percentile(99), latency:percentile(99.9)))
end
`

// wrk runs a closed loop of n clients.
func (r *run) wrk(c *callers, n int, during time.Duration) (sample, error) {
	var fields strings.Builder
	for line := range strings.Lines(c.fields) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		fmt.Fprintf(&fields, "wrk.headers[%q] = %q\n", name, value)
	}
	script := filepath.Join(r.dir, "wrk.lua")
	if err := os.WriteFile(script, fmt.Appendf(nil, wrkScript, fields.String(), r.bodyFile()), 0o644); err != nil {
		return sample{}, err
	}
	out, err := runTool("wrk", "-t", strconv.Itoa(min(n, 2)), "-c", strconv.Itoa(n), "-d", during.String(),
		"--latency", "-s", script, "http://"+c.address+c.path)
	if err != nil {
		return sample{}, err
	}
	return readWrk(out)
}

// readWrk reads what wrk prints; the line of wrkScript is the last one.
func readWrk(out []byte) (sample, error) {
	var s struct {
		Requests int     `json:"requests"`
		Duration float64 `json:"duration_us"`
		Errors   int     `json:"errors"`
		P10      float64 `json:"p10_us"`
		P50      float64 `json:"p50_us"`
		P90      float64 `json:"p90_us"`
		P99      float64 `json:"p99_us"`
		P999     float64 `json:"p99.9_us"`
	}
	if err := json.Unmarshal(out[max(bytes.LastIndexByte(out, '{'), 0):], &s); err != nil {
		return sample{}, fmt.Errorf("wrk: %w: %.400q", err, out)
	}
	if s.Requests <= s.Errors {
		return sample{}, fmt.Errorf("wrk: %d answers and %d errors", s.Requests, s.Errors)
	}
	return sample{
		rate: 1e6 * float64(s.Requests-s.Errors) / s.Duration, requests: float64(s.Requests),
		refused: float64(s.Errors) / float64(s.Requests),
		p10:     s.P10 / 1e6, p50: s.P50 / 1e6, p90: s.P90 / 1e6, p99: s.P99 / 1e6, p999: s.P999 / 1e6,
	}, nil
}

// vegeta sends arrivals at a constant rate, or as a closed loop.
func (r *run) vegeta(c *callers, l perf.Load, during time.Duration) (sample, error) {
	targets, results := filepath.Join(r.dir, "targets"), filepath.Join(r.dir, "results")
	text := fmt.Sprintf("POST http://%s%s\n%s@%s\n", c.address, c.path, strings.ReplaceAll(c.fields, "\r\n", "\n"), r.bodyFile())
	if err := os.WriteFile(targets, []byte(text), 0o644); err != nil {
		return sample{}, err
	}
	program := filepath.Join(toolsDir, "vegeta")
	arguments := []string{
		"attack", "-targets=" + targets, "-output=" + results, "-max-body=0", "-timeout=10s", "-duration=" + during.String(),
		fmt.Sprintf("-rate=%.0f/1000s", 1000*l.Rate), // 0: without a limit
	}
	if clients := strconv.Itoa(l.Concurrency); l.Concurrency > 0 {
		arguments = append(arguments, "-workers="+clients, "-max-workers="+clients)
	}
	if _, err := runTool(program, arguments...); err != nil {
		return sample{}, err
	}
	out, err := runTool(program, "encode", "-to=csv", results)
	if err != nil {
		return sample{}, err
	}
	return readVegeta(bytes.NewReader(out), during)
}

// readVegeta reads vegeta's results as CSV: a time, a status and a latency in nanoseconds first.
func readVegeta(from io.Reader, during time.Duration) (sample, error) {
	var latencies perf.Histogram
	failed := 0
	for rows := csv.NewReader(from); ; {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return ended("vegeta", &latencies, failed, during)
		}
		if err != nil {
			return sample{}, fmt.Errorf("vegeta: %w", err)
		}
		if len(row) < 6 {
			return sample{}, fmt.Errorf("vegeta: %.400q", row)
		}
		if row[1] != "200" {
			failed++
			continue
		}
		ns, err := strconv.ParseInt(row[2], 10, 64)
		if err != nil {
			return sample{}, fmt.Errorf("vegeta: %w", err)
		}
		latencies.Record(time.Duration(ns))
	}
}

// ghz sends a gRPC message, in a closed loop or as arrivals at a constant rate.
func (r *run) ghz(c *callers, l perf.Load, during time.Duration) (sample, error) {
	arguments := []string{
		"--insecure", "--proto", "api/inference/grpc_service.proto", "--import-paths", "api/inference",
		"--call", "inference.GRPCInferenceService.ModelInfer", "--binary-file", r.bodyFile(), "--duration", during.String(),
		"--duration-stop", "ignore", "--format", "json",
	}
	if clients := strconv.Itoa(l.Concurrency); l.Concurrency > 0 {
		arguments = append(arguments, "--concurrency", clients, "--connections", clients)
	} else {
		rate := strconv.Itoa(int(math.Round(l.Rate)))
		arguments = append(arguments, "--async", "--rps", rate, "--concurrency", "64", "--connections", "8")
	}
	out, err := runTool(filepath.Join(toolsDir, "ghz"), append(arguments, c.address)...)
	if err != nil {
		return sample{}, err
	}
	return readGhz(out)
}

// readGhz reads ghz's JSON report, which has every request in it.
func readGhz(out []byte) (sample, error) {
	var report struct {
		Total   time.Duration `json:"total"`
		Details []struct {
			Latency time.Duration `json:"latency"`
			Status  string        `json:"status"`
		} `json:"details"`
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return sample{}, fmt.Errorf("ghz: %w: %.400q", err, out)
	}
	var latencies perf.Histogram
	failed := 0
	for _, d := range report.Details {
		if d.Status != "OK" {
			failed++
			continue
		}
		latencies.Record(d.Latency)
	}
	return ended("ghz", &latencies, failed, report.Total)
}

// ended is the sample of a generator that has told of every request: of those that were answered, and of how many
// failed. An overloaded server may refuse some; when it is all of them something else is wrong.
func ended(generator string, latencies *perf.Histogram, failed int, took time.Duration) (sample, error) {
	if latencies.Count() == 0 || took <= 0 {
		return sample{}, fmt.Errorf("%s tells of %d answers and %d failures in %v", generator, latencies.Count(), failed, took)
	}
	s := newSample(latencies, took)
	s.requests = float64(latencies.Count()) + float64(failed)
	s.refused = float64(failed) / s.requests
	return s, nil
}

// bodyFile is where tools find the body, or the message, that they send.
func (r *run) bodyFile() string { return filepath.Join(r.dir, "body") }
