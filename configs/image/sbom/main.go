// Command sbom lists what a slot of the image is made of, as CycloneDX, and fails when a file belongs to nothing that
// it lists.
//
// Components are Debian's packages (dpkg's status), the Go modules in the program (its build information), the ONNX
// Runtime beside it, the models of the demo, and the files of this project, which are those of its overlay and what its
// scripts make.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

type document struct {
	Format       string      `json:"bomFormat"`
	Specific     string      `json:"specVersion"`
	Version      int         `json:"version"`
	Metadata     metadata    `json:"metadata"`
	Components   []component `json:"components"`
	Completeness []aggregate `json:"compositions"`
}

type metadata struct {
	Component component `json:"component"`
}

type aggregate struct {
	Aggregate string `json:"aggregate"`
}

type component struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	PURL    string `json:"purl,omitempty"`
	Hashes  []hash `json:"hashes,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// maxNamed bounds how many files that belong to nothing are named.
const maxNamed = 50

func main() {
	root := flag.String("root", "", "folder of the slot, with dpkg's status in it")
	version := flag.String("version", "", "version of the slot")
	overlay := flag.String("overlay", "", "folder of this project's own files in the slot")
	runtime := flag.String("onnxruntime", "", "version of the ONNX Runtime in the slot")
	flag.Parse()
	if err := run(slot{*root, *version, *overlay, *runtime}, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// slot is what is listed: its folder, its version, the folder of this project's files in it, the version of its ONNX
// Runtime.
type slot struct{ root, version, overlay, runtime string }

const program = "usr/lib/edgewise/edgewise"

func run(s slot, out io.Writer) error {
	packages, err := debian(s.root)
	if err != nil {
		return err
	}
	modules, err := golang(filepath.Join(s.root, program))
	if err != nil {
		return err
	}
	own, err := own(s)
	if err != nil {
		return err
	}
	models, err := files(s.root, "machine-learning-model", "usr/share/edgewise/demo")
	if err != nil {
		return err
	}
	if strays, err := unlisted(s.root, s.overlay); err != nil {
		return err
	} else if len(strays) > 0 {
		return fmt.Errorf("%d files belong to no listed component, the first: %s", len(strays),
			strings.Join(strays[:min(maxNamed, len(strays))], " "))
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", " ")
	return encoder.Encode(document{
		Format: "CycloneDX", Specific: "1.6", Version: 1,
		Metadata:     metadata{component{Type: "operating-system", Name: "edgewise", Version: s.version}},
		Components:   slices.Concat(own, packages, modules, models),
		Completeness: []aggregate{{"complete"}},
	})
}

// own lists the program, which this project's files in the slot belong to, and the runtime library beside it.
func own(s slot) ([]component, error) {
	list := []component{
		{Type: "application", Name: "edgewise", Version: s.version},
		{Type: "library", Name: "onnxruntime", Version: s.runtime, PURL: "pkg:npm/onnxruntime-node@" + s.runtime},
	}
	if s.runtime == "" {
		return nil, fmt.Errorf("the version of ONNX Runtime is missing")
	}
	for i, path := range []string{program, "usr/lib/edgewise/lib/libonnxruntime.so.1"} {
		sum, err := digest(filepath.Join(s.root, path))
		if err != nil {
			return nil, err
		}
		list[i].Hashes = []hash{{"SHA-256", sum}}
	}
	return list, nil
}

// debian lists the packages that dpkg has installed.
func debian(root string) ([]component, error) {
	text, err := os.ReadFile(filepath.Join(root, "var/lib/dpkg/status"))
	if err != nil {
		return nil, err
	}
	var list []component
	for paragraph := range strings.SplitSeq(string(text), "\n\n") {
		field := map[string]string{}
		for line := range strings.SplitSeq(paragraph, "\n") {
			if key, value, ok := strings.Cut(line, ": "); ok && !strings.HasPrefix(line, " ") {
				field[key] = value
			}
		}
		if field["Status"] != "install ok installed" {
			continue
		}
		list = append(list, component{
			Type: "library", Name: field["Package"], Version: field["Version"],
			PURL: fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s", field["Package"], field["Version"], field["Architecture"]),
		})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("dpkg's status names no package")
	}
	return list, nil
}

// golang lists the modules that a program was built of.
func golang(path string) ([]component, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, err
	}
	list := []component{{
		Type: "library", Name: "std", Version: info.GoVersion,
		PURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go"),
	}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		list = append(list, component{Type: "library", Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + m.Path + "@" + m.Version})
	}
	return list, nil
}

// files lists each file of a folder with its digest.
func files(root, kind, folder string) ([]component, error) {
	var list []component
	err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		sum, err := digest(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		list = append(list, component{Type: kind, Name: name, Hashes: []hash{{"SHA-256", sum}}})
		return err
	})
	return list, err
}

func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
