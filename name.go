package edgewise

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of names. They keep every name usable as a file name, a metric label and a path segment of a URL.
const (
	MaxNameBytes = 128  // a model's name, a label or a user's name
	maxPathBytes = 1024 // a file's path inside a version
	maxPathDepth = 8    // folders in such a path, the file included
)

// ModelID names a version of a model. Version 0 stands for the one the policy picks.
type ModelID struct {
	Name    string `json:"name"`
	Version int64  `json:"version"`
}

// String returns `"cat" version 3`, or `"cat"` without a version, for messages.
func (id ModelID) String() string {
	if id.Version == 0 {
		return fmt.Sprintf("%q", id.Name)
	}
	return fmt.Sprintf("%q version %d", id.Name, id.Version)
}

// CheckName tells whether name may name a model: 1 to MaxNameBytes ASCII letters, digits, '_', '-', '.' and ',', the
// first one a letter, a digit or '_'. Anything else could leave a folder, or look like another name.
func CheckName(name string) error { return checkName("model name", name, "_-.,") }

// CheckUser tells whether name may be the name of a person who logs in: as CheckName, without ','.
func CheckUser(name string) error { return checkName("user name", name, "_-.") }

// CheckLabel tells whether name may be a label: as CheckUser, and not a number, which would read like a version.
func CheckLabel(name string) error {
	if err := checkName("label", name, "_-."); err != nil {
		return err
	}
	if strings.Trim(name, "0123456789") == "" {
		return fmt.Errorf("label %q is a number: a label must not look like a version", name)
	}
	return nil
}

// checkName holds a name against its bounds: letters, digits and the characters of marks.
func checkName(what, name, marks string) error {
	if name == "" || len(name) > MaxNameBytes {
		return fmt.Errorf("%s %.40q has %d bytes: want 1 to %d", what, name, len(name), MaxNameBytes)
	}
	for i, r := range name {
		if !alphanumeric(r) && !strings.ContainsRune(marks, r) || i == 0 && r != '_' && !alphanumeric(r) {
			return fmt.Errorf("%s %q: character %q at byte %d is not allowed: want ASCII letters, digits and any of %q, "+
				"beginning with a letter, a digit or '_'",
				what, name, r, i, marks)
		}
	}
	return nil
}

func alphanumeric(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}

// CheckPath tells whether p may be the path of a file inside a version: relative, clean, slash-separated UTF-8 without
// control characters, backslashes, "." or ".." segments, at most 1,024 bytes and 8 segments, and no segment over 255
// bytes.
func CheckPath(p string) error {
	switch {
	case p == "" || len(p) > maxPathBytes:
		return fmt.Errorf("file path %.40q has %d bytes: want 1 to %d", p, len(p), maxPathBytes)
	case !utf8.ValidString(p) || strings.ContainsFunc(p, unicode.IsControl) || strings.Contains(p, `\`):
		return fmt.Errorf("file path %q: control characters, backslashes and invalid UTF-8 are not allowed", p)
	case path.IsAbs(p) || path.Clean(p) != p || p == "." || p == ".." || strings.HasPrefix(p, "../"):
		return fmt.Errorf("file path %q: want a clean path inside the model's folder", p)
	}
	segments := strings.Split(p, "/")
	if len(segments) > maxPathDepth {
		return fmt.Errorf("file path %q is %d folders deep: at most %d are allowed", p, len(segments), maxPathDepth)
	}
	for _, s := range segments {
		if len(s) > 255 {
			return fmt.Errorf("file path %.40q...: a segment has %d bytes, at most 255 are allowed", p, len(s))
		}
	}
	return nil
}
