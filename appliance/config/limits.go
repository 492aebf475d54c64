package config

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// APIs are the parts of the inference protocol that can be restricted, by Triton's names.
func APIs() []string {
	return []string{
		"health", "metadata", "inference", "shared-memory", "model-config", "model-repository", "statistics",
		"trace", "logging",
	}
}

const restrictionWant = "groups such as health;metadata:key=value, each API in one group"

// areRestrictions takes groups in Restriction's form.
func areRestrictions(field any) bool {
	seen := map[string]bool{}
	for _, group := range *field.(*[]string) {
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

func isPattern(field any) bool {
	_, err := regexp.Compile(*field.(*string))
	return err == nil
}

// areQuantiles takes pairs such as 0.5:0.05.
func areQuantiles(field any) bool {
	_, ok := ParseQuantiles(*field.(*string))
	return ok
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

func areTraceLevels(field any) bool {
	levels := *field.(*[]string)
	for _, level := range levels {
		if level == "OFF" && len(levels) > 1 || !slices.Contains([]string{"OFF", "TIMESTAMPS", "TENSORS"}, level) {
			return false
		}
	}
	return true
}

func isURL(field any) bool {
	u, err := url.Parse(*field.(*string))
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

func arePairs(field any) bool {
	pairs := *field.(*[]string)
	return len(pairs) <= 64 && !slices.ContainsFunc(pairs, func(p string) bool { return strings.IndexByte(p, '=') < 1 })
}
