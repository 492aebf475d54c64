package config

import (
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/pattern"
)

// limit says what the values of a key are, and which it may have.
type limit struct {
	unit, want    string
	path, library bool                 // of files; library: of a library, which may be a name alone
	output        bool                 // a file that this process writes, whose path clients read as it was given
	ok            func(field any) bool // takes the pointer to the value
}

// limits are the named limits. At most 64 entries are in a list, unless it says otherwise.
var limits = map[string]limit{
	"folder":  {unit: "path", want: "a path", path: true, ok: one(notEmpty)},
	"file":    {unit: "path", path: true, ok: anything},
	"library": {unit: "path", path: true, library: true, ok: anything},
	"output":  {unit: "path", path: true, output: true, ok: anything},
	"paths":   {unit: "list of paths", want: "at most 64 paths", path: true, ok: each(64, anyText)},
	"places": {
		unit: "list of paths or URLs", path: true, ok: each(64, isPlace),
		want: "at most 64 paths, or URLs without a user, a password and a query",
	},
	"place": {
		unit: "path or URL", ok: one(isFleetPlace),
		want: "an absolute path, or a URL of at most 2048 bytes (oci, s3, gs, as, https or http) without a user and a query",
	},
	"folders": {unit: "list of folders", want: "at most 64 absolute paths", ok: each(64, filepath.IsAbs)},
	"files":   {unit: "list of files", want: "at most 64 absolute paths", ok: each(64, filepath.IsAbs)},
	"name":    {unit: "name", want: "a name", ok: one(notEmpty)},
	"names":   {unit: "list of names", want: "at most 10000 names", ok: each(10_000, anyText)},
	"address": {
		unit: "host:port", ok: one(isAddress),
		want: "a host (empty: every address) and a port from 0 to 65535, or nothing at all: no such server",
	},
	"expression": {
		unit: "regular expression", want: "a regular expression as Go's package regexp reads it", ok: one(isPattern),
	},
	"restrictions": {want: "groups such as health;metadata:key=value, each API in one group", ok: all(areRestrictions)},
	"hosts": {
		unit: "list of host names", want: `at most 64 host names without port, or "*" for any name`, ok: each(64, isHost),
	},
	"origins": {
		unit: "list of origins", ok: each(64, isOrigin),
		want: `at most 64 origins such as https://shop.example or http://localhost:5173, or "*" for any`,
	},
	"networks": {
		unit: "list of addresses", want: "at most 64 addresses such as 192.0.2.7, or networks such as 10.0.0.0/8", ok: each(64, isNetwork),
	},
	"devices": {
		unit: "list of numbers or UUIDs", ok: each(64, device.MatchString),
		want: "at most 64 numbers, in the order of the PCI bus, or UUIDs",
	},
	"resources": {
		unit: "list of resources", want: "at most 64 resources as name:count, each name once", ok: all(areResources),
	},
	"quantiles": {
		unit: "list of quantile:error", want: "up to 16 pairs of numbers above 0 and below 1", ok: one(areQuantiles),
	},
	"levels": {unit: "list of names", want: "OFF alone, or of TIMESTAMPS and TENSORS", ok: all(areTraceLevels)},
	"URL":    {unit: "URL", want: "an http or https URL", ok: one(isURL)},
	"alerts": {want: "at most 64 rules as kind:above:minutes:model", ok: each(64, isAlert)},
	"box":    {unit: "name", want: "at most 63 characters, none of them a control character", ok: one(isBoxName)},
	"pairs":  {unit: "list of name=value", want: "at most 64 pairs", ok: each(64, isPair)},
}

// limitOf returns what the tag limit of a field says: the name of one of limits, "one of A, B", "LEAST to MOST", or
// "0, or LEAST to MOST". Without a tag every value of the field's type is allowed.
func limitOf(field any, tag string) limit {
	l := limit{unit: unitOf(field), want: tag, ok: anything}
	if named, ok := limits[tag]; ok {
		return named
	}
	if names, ok := strings.CutPrefix(tag, "one of "); ok {
		l.ok = one(func(text string) bool { return slices.Contains(strings.Split(names, ", "), text) })
	} else if tag != "" {
		l.ok = within(field, tag)
	}
	return l
}

// unitOf names the values of a field's type; "" where the tag unit does.
func unitOf(field any) string {
	switch field.(type) {
	case *bool:
		return "true or false"
	case *Size:
		return "bytes"
	case *time.Duration:
		return "duration"
	case *string:
		return "name"
	}
	return ""
}

// within reads "LEAST to MOST" and "0, or LEAST to MOST" as numbers of the field's type.
func within(field any, tag string) func(field any) bool {
	bounds, orZero := strings.CutPrefix(tag, "0, or ")
	least, most, _ := strings.Cut(bounds, " to ")
	number := func(text string) int64 {
		n := reflect.New(reflect.TypeOf(field).Elem())
		if err := set(n.Interface(), text); err != nil {
			panic("BUG: limit " + tag + ": " + err.Error())
		}
		return n.Elem().Int()
	}
	low, high := number(least), number(most)
	return func(field any) bool {
		n := reflect.ValueOf(field).Elem().Int()
		return orZero && n == 0 || low <= n && n <= high
	}
}

func one(ok func(string) bool) func(any) bool {
	return func(field any) bool { return ok(*field.(*string)) }
}

func all(ok func([]string) bool) func(any) bool {
	return func(field any) bool { return ok(*field.(*[]string)) }
}

// each allows lists of at most so many entries that are all allowed.
func each(most int, ok func(string) bool) func(any) bool {
	return all(func(entries []string) bool {
		return len(entries) <= most && !slices.ContainsFunc(entries, func(entry string) bool { return !ok(entry) })
	})
}

func anything(any) bool         { return true }
func anyText(string) bool       { return true }
func notEmpty(text string) bool { return text != "" }

func isAddress(text string) bool {
	if text == "" {
		return true
	}
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

var hostName = pattern.New(
	`^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$`)

func isHost(text string) bool { return text == "*" || len(text) <= 253 && hostName.MatchString(text) }

func isOrigin(text string) bool { return edgewise.CheckOrigin(text) == nil }

func isNetwork(text string) bool {
	_, err := netip.ParsePrefix(text)
	address, failed := netip.ParseAddr(text)
	return err == nil || failed == nil && address.Zone() == ""
}

var device = pattern.New(`^([0-9]{1,3}|(GPU|MIG)-[0-9A-Za-z/-]{1,80})$`)

func isPattern(text string) bool {
	_, err := regexp.Compile(text)
	return err == nil
}

func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// remote are the schemes of URLs of trees of models.
var remote = pattern.New(`^(s3|gs|as|oci)://`)

// IsRemote tells whether an entry of repository.folders is a URL and not a folder of this machine.
func IsRemote(place string) bool { return remote.MatchString(place) }

// isPlace refuses URLs with secrets in them, which are shown wherever the entry is.
func isPlace(text string) bool {
	return !IsRemote(text) || len(text) <= 2048 && !strings.ContainsAny(text, "?#") && !userOf.MatchString(text)
}

// isFleetPlace allows folders of this machine too.
func isFleetPlace(text string) bool {
	return text == "" || filepath.IsAbs(text) || (IsRemote(text) || isURL(text)) && len(text) <= 2048 && !strings.ContainsAny(text, "?#") &&
		!userOf.MatchString(text)
}

// userOf matches the user of a URL, or of one inside it.
var userOf = pattern.New(`://[^/]*@`)

func isBoxName(text string) bool {
	return utf8.RuneCountInString(text) <= 63 && !strings.ContainsFunc(text, unicode.IsControl)
}

func isPair(text string) bool { return strings.IndexByte(text, '=') > 0 }

func areTraceLevels(levels []string) bool {
	return !slices.ContainsFunc(levels, func(level string) bool {
		return level == "OFF" && len(levels) > 1 || !slices.Contains([]string{"OFF", "TIMESTAMPS", "TENSORS"}, level)
	})
}
