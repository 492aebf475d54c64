package update

import (
	"bufio"
	"bytes"
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
	if values := readRelease(release); values["ID"] == "edgewise" {
		return Packaging{Image, values["VERSION_ID"]}
	}
	return Packaging{Package, version}
}

func readRelease(path string) map[string]string {
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
