package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Values that have a syntax of their own.

// APIs are the parts of the inference protocol that can be restricted, by Triton's names.
func APIs() []string {
	return []string{
		"health", "metadata", "inference", "shared-memory", "model-config", "model-repository", "statistics",
		"trace", "logging",
	}
}

// Restriction is a group of APIs that need a header with a value.
type Restriction struct {
	APIs       []string
	Key, Value string
}

// ParseRestriction reads "health;metadata:key=value".
func ParseRestriction(group string) (r Restriction, ok bool) {
	apis, secret, ok := strings.Cut(group, ":")
	if !ok {
		return r, false
	}
	r.Key, r.Value, ok = strings.Cut(secret, "=")
	if !ok || r.Key == "" {
		return r, false
	}
	for api := range strings.SplitSeq(apis, ";") {
		if api = strings.TrimSpace(api); !slices.Contains(APIs(), api) {
			return r, false
		}
		r.APIs = append(r.APIs, api)
	}
	return r, true
}

// areRestrictions allows groups in Restriction's form that share no API.
func areRestrictions(groups []string) bool {
	seen := map[string]bool{}
	for _, group := range groups {
		r, ok := ParseRestriction(group)
		if !ok {
			return false
		}
		for _, api := range r.APIs {
			if seen[api] {
				return false
			}
			seen[api] = true
		}
	}
	return true
}

// maxQuantiles bounds the quantiles of a summary.
const maxQuantiles = 16

// ParseQuantiles reads pairs of a quantile and its error, such as "0.5:0.05,0.9:0.01".
func ParseQuantiles(text string) (map[float64]float64, bool) {
	quantiles := map[float64]float64{}
	for pair := range strings.SplitSeq(text, ",") {
		q, e, found := strings.Cut(pair, ":")
		quantile, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
		allowed, err2 := strconv.ParseFloat(strings.TrimSpace(e), 64)
		if !found || err != nil || err2 != nil || !(quantile > 0 && quantile < 1 && allowed > 0 && allowed < 1) {
			return nil, false
		}
		quantiles[quantile] = allowed
	}
	return quantiles, len(quantiles) <= maxQuantiles
}

func areQuantiles(text string) bool {
	_, ok := ParseQuantiles(text)
	return ok
}

// maxResources bounds engine.rate_limit_resources.
const maxResources = 64

// everyDevice is the device of an entry of engine.rate_limit_resources that names none.
const everyDevice = -1

// Resources returns the counts of engine.rate_limit_resources, which has been checked, by name and device; of device -1
// is what holds for every device.
func (e *Engine) Resources() map[string]map[int]int {
	resources, _ := resourcesOf(e.RateLimitResources)
	return resources
}

// resourcesOf reads entries as name:count:device or name:count. A name may hold colons itself.
func resourcesOf(entries []string) (resources map[string]map[int]int, ok bool) {
	resources = map[string]map[int]int{}
	for _, entry := range entries {
		name, count, ok := cutNumber(entry)
		if !ok {
			return nil, false
		}
		device := everyDevice
		if of, n, three := cutNumber(name); three {
			name, count, device = of, n, count
		}
		if _, known := resources[name][device]; known {
			return nil, false
		}
		if resources[name] == nil {
			resources[name] = map[int]int{}
		}
		resources[name][device] = count
	}
	return resources, len(entries) <= maxResources
}

// cutNumber cuts the number behind the last colon of text, which something stands before.
func cutNumber(text string) (before string, n int, ok bool) {
	at := strings.LastIndexByte(text, ':')
	if at < 1 {
		return "", 0, false
	}
	number, err := strconv.ParseUint(text[at+1:], 10, 32)
	return text[:at], int(number), err == nil
}

func areResources(entries []string) bool {
	_, ok := resourcesOf(entries)
	return ok
}

// Alert is a rule of alerts.rules.
type Alert struct {
	Kind    string
	Above   float64
	Minutes int
	Model   string
}

// ParseAlert reads kind:above:minutes:model, of which all but the kind may be missing.
func ParseAlert(text string) (a Alert, ok bool) {
	var parts [4]string
	if copy(parts[:], strings.SplitN(text, ":", len(parts))); parts[1] != "" {
		above, err := strconv.ParseFloat(parts[1], 64)
		if err != nil {
			return a, false
		}
		a.Above = above
	}
	if parts[2] != "" {
		minutes, err := strconv.ParseUint(parts[2], 10, 16)
		if err != nil {
			return a, false
		}
		a.Minutes = int(minutes)
	}
	a.Kind, a.Model = parts[0], parts[3]
	return a, slices.Contains([]string{"error_rate", "p99", "disk", "temperature", "model_down"}, a.Kind)
}

func isAlert(text string) bool {
	_, ok := ParseAlert(text)
	return ok
}

// Size is a number of bytes, written as an integer or with a binary unit: 1024, 64KiB, 2GiB.
type Size int64

// The units of a Size.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
	TiB Size = 1 << 40
)

var units = []struct {
	suffix string
	size   Size
}{{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"B", 1}}

// String returns the size with the largest unit that divides it, such as 64MiB, or 1000.
func (s Size) String() string {
	for _, u := range units {
		if s != 0 && s%u.size == 0 && u.size > 1 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// UnmarshalText reads digits and an optional unit out of B, KiB, MiB, GiB and TiB. Decimal units such as MB are
// refused: half of their readers take them for binary ones.
func (s *Size) UnmarshalText(text []byte) error {
	digits, unit := string(text), Size(1)
	for _, u := range units {
		if before, ok := strings.CutSuffix(digits, u.suffix); ok {
			digits, unit = strings.TrimSuffix(before, " "), u.size
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || n > math.MaxInt64/uint64(unit) {
		return fmt.Errorf("want a size such as 4096, 64KiB, 64MiB or 2GiB, got %.40q", text)
	}
	*s = Size(n) * unit
	return nil
}
