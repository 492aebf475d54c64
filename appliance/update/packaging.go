package update

import (
	"bufio"
	"bytes"
	"cmp"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// Kind says how the program came to this machine, and with that how it is updated.
type Kind string

// The kinds.
const (
	Image     Kind = "image"     // a box that was flashed: signed bundles through RAUC
	Package   Kind = "package"   // the Debian package: signed packages through the helper
	Container Kind = "container" // an OCI image: whoever runs it pulls another
	Folder    Kind = "folder"    // a program in a folder: whoever put it there replaces it
)

// packagingFile stands beside the program and says what brought it, as "package 1.2.3" or "container 1.2.3".
const packagingFile = "packaging"

// Packaging is how a program came to this machine, and the version of what brought it; empty for a folder.
type Packaging struct {
	Kind    Kind
	Version string
}

// Identify says what brought a program. release is the system's os-release: that of the image says so.
func Identify(program, release string) Packaging {
	text, err := os.ReadFile(filepath.Join(filepath.Dir(program), packagingFile))
	if err != nil {
		return Packaging{Kind: Folder}
	}
	kind, version, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if Kind(kind) == Container {
		return Packaging{Container, version}
	}
	if values := ReadRelease(release); values["ID"] == "edgewise" {
		return Packaging{Image, values["VERSION_ID"]}
	}
	return Packaging{Package, version}
}

// ReadRelease reads an os-release file; one that cannot be read has no values.
func ReadRelease(path string) map[string]string {
	values := map[string]string{}
	text, err := os.ReadFile(path)
	if err != nil {
		return values
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), "="); ok {
			values[key] = strings.Trim(value, `"'`)
		}
	}
	return values
}

// How the files of updates begin.
const (
	bundleMagic  = "hsqs"      // a squashfs
	packageMagic = "!<arch>\n" // an ar archive
)

// CheckFile tells from the first bytes of a file whether it can be an update of this kind. It moves the offset. Error:
// Invalid.
func (k Kind) CheckFile(f io.Reader) error {
	head := make([]byte, len(packageMagic))
	n, _ := io.ReadFull(f, head)
	head = head[:n]
	is := "no update of Edgewise"
	switch {
	case bytes.HasPrefix(head, []byte(bundleMagic)):
		is = "a bundle for boxes that were flashed"
		if k == Image {
			return nil
		}
	case bytes.HasPrefix(head, []byte(packageMagic)):
		is = "a Debian package"
		if k == Package {
			return nil
		}
	}
	return edgewise.Errorf("update.CheckFile", edgewise.Invalid, "the file is %s: want %s", is, k.Wants())
}

// Wants names the file that a kind is updated with; for those that take none, what is done instead.
func (k Kind) Wants() string {
	switch k {
	case Image:
		return "edgewise-VERSION.raucb"
	case Package:
		return "edgewise_VERSION_ARCHITECTURE.deb with its .minisig"
	case Container:
		return "nothing here: run the new version's image with the same volume at the data folder"
	}
	return "nothing here: stop the program, replace its folder by the new version's and start it again; the data folder stays"
}

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
