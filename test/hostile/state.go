package hostile

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// State is what a box says of itself.
type State struct {
	Goroutines int
	Resident   float64 // MiB
	Guests     int     // of all steps
	Trapped    int     // runs that failed by a trap, or by an answer that cannot be
	Stopped    int     // runs that were stopped
}

// Look reads the metrics of the box at an address.
func Look(ctx context.Context, url string) (s State, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return s, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return s, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return s, fmt.Errorf("the metrics: %s", res.Status)
	}
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			continue
		}
		name, labels, _ := strings.Cut(line[:at], "{")
		switch {
		case name == "go_goroutines":
			s.Goroutines = int(value)
		case name == "process_resident_memory_bytes":
			s.Resident = value / (1 << 20)
		case name == "edgewise_guests":
			s.Guests += int(value)
		case name == "edgewise_guest_failures_total" && strings.Contains(labels, `reason="trapped"`):
			s.Trapped += int(value)
		case name == "edgewise_guest_failures_total" && strings.Contains(labels, `reason="stopped"`):
			s.Stopped += int(value)
		}
	}
	return s, nil
}

// Settled looks until the box has no more guests and goroutines than before, or the time is over, and returns the last
// look.
func Settled(ctx context.Context, url string, before State, during time.Duration) (s State, err error) {
	for end := time.Now().Add(during); ; {
		if s, err = Look(ctx, url); err != nil || time.Now().After(end) || s.Guests <= before.Guests && s.Goroutines <= before.Goroutines {
			return s, err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return s, ctx.Err()
		}
	}
}
