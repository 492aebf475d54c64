package config

import (
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

// Resources returns the counts of engine.rate_limit_resources, which has been checked, by name.
func (e *Engine) Resources() map[string]int {
	resources, _ := resourcesOf(e.RateLimitResources)
	return resources
}

// resourcesOf reads entries as name:count. A name may hold colons itself.
func resourcesOf(entries []string) (resources map[string]int, ok bool) {
	resources = map[string]int{}
	for _, entry := range entries {
		at := strings.LastIndexByte(entry, ':')
		if at < 1 {
			return nil, false
		}
		n, err := strconv.ParseUint(entry[at+1:], 10, 32)
		if _, known := resources[entry[:at]]; known || err != nil {
			return nil, false
		}
		resources[entry[:at]] = int(n)
	}
	return resources, len(entries) <= maxResources
}

func areResources(entries []string) bool {
	_, ok := resourcesOf(entries)
	return ok
}
