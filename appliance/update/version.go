package update

import (
	"cmp"
	"strings"
)

// Compare orders two versions as Debian does: negative when a is older than b. A '~' sorts before everything, also
// before the end, so that 1.0~rc1 is older than 1.0; digits compare as numbers. See
// https://www.debian.org/doc/debian-policy/ch-controlfields.html#version
func Compare(a, b string) int {
	aEpoch, a := epoch(a)
	bEpoch, b := epoch(b)
	if c := number(aEpoch, bEpoch); c != 0 {
		return c
	}
	aUpstream, aRevision := revision(a)
	bUpstream, bRevision := revision(b)
	if c := part(aUpstream, bUpstream); c != 0 {
		return c
	}
	return part(aRevision, bRevision)
}

func epoch(v string) (epoch, rest string) {
	if before, after, ok := strings.Cut(v, ":"); ok {
		return before, after
	}
	return "", v
}

func revision(v string) (upstream, revision string) {
	if i := strings.LastIndexByte(v, '-'); i >= 0 {
		return v[:i], v[i+1:]
	}
	return v, ""
}

// part compares a part of a version: what is no digit and what is, in turns.
func part(a, b string) int {
	for a != "" || b != "" {
		var x, y string
		x, a = leading(a, false)
		y, b = leading(b, false)
		if c := text(x, y); c != 0 {
			return c
		}
		x, a = leading(a, true)
		y, b = leading(b, true)
		if c := number(x, y); c != 0 {
			return c
		}
	}
	return 0
}

// leading splits off what a text begins with: digits, or none.
func leading(s string, digits bool) (head, rest string) {
	end := strings.IndexFunc(s, func(r rune) bool { return (r >= '0' && r <= '9') != digits })
	if end < 0 {
		end = len(s)
	}
	return s[:end], s[end:]
}

func text(a, b string) int {
	for i := 0; i < max(len(a), len(b)); i++ {
		if c := cmp.Compare(weight(a, i), weight(b, i)); c != 0 {
			return c
		}
	}
	return 0
}

// weight is where a character sorts: '~', the end, letters, everything else.
func weight(s string, i int) int {
	switch {
	case i >= len(s):
		return 0
	case s[i] == '~':
		return -1
	case s[i] >= 'A' && s[i] <= 'Z' || s[i] >= 'a' && s[i] <= 'z':
		return int(s[i])
	}
	return int(s[i]) + 256
}

func number(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if c := cmp.Compare(len(a), len(b)); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}
