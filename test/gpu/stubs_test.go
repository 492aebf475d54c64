//go:build gpustub

package gpu

import (
	"debug/elf"
	_ "embed" // the C source of the libraries
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// head begins the source of each library.
//
//go:embed stubs/head.c
var head string

// functions are the functions that must do something, each in a paragraph of its own. All others return 0.
//
//go:embed stubs/functions.c
var functions string

// defined finds the name of the function that a paragraph of functions defines.
var defined = regexp.MustCompile(`^[a-z][a-z ]*[ *](\w+)\(`)

// bodies returns the definitions of functions by their names.
func bodies() map[string]string {
	all := map[string]string{}
	for paragraph := range strings.SplitSeq(functions, "\n\n") {
		if name := defined.FindStringSubmatch(paragraph); name != nil {
			all[name[1]] = paragraph + "\n"
		}
	}
	return all
}

// makeStubs writes libraries into dir that have everything that a provider needs of NVIDIA's, the driver excepted.
func makeStubs(provider, dir string) error {
	f, err := elf.Open(provider)
	if err != nil {
		return err
	}
	defer f.Close()
	symbols, err := f.ImportedSymbols()
	if err != nil {
		return err
	}
	needed, err := f.ImportedLibraries()
	if err != nil {
		return err
	}
	for _, library := range needed {
		if !strings.HasPrefix(library, "libcu") || strings.HasPrefix(library, "libcuda.") {
			continue
		}
		var own []string
		for _, s := range symbols {
			if s.Library == library || s.Version == library {
				own = append(own, s.Name)
			}
		}
		slices.Sort(own)
		if err := compile(dir, library, slices.Compact(own)); err != nil {
			return err
		}
	}
	return nil
}

// compile makes one library, whose symbols have its name as their version, as NVIDIA's do.
func compile(dir, library string, symbols []string) error {
	var source strings.Builder
	source.WriteString(head)
	bodies := bodies()
	for _, name := range symbols {
		if body, ok := bodies[name]; ok {
			source.WriteString(body)
			continue
		}
		fmt.Fprintf(&source, "int %s(void) { return 0; }\n", name)
	}
	c, script := filepath.Join(dir, library+".c"), filepath.Join(dir, library+".map")
	if err := os.WriteFile(c, []byte(source.String()), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(script, []byte(library+" { global: *; };\n"), 0o600); err != nil {
		return err
	}
	out, err := exec.Command("cc", "-w", "-O1", "-shared", "-fPIC", "-Wl,-soname,"+library, "-Wl,--version-script="+script,
		"-o", filepath.Join(dir, library), c).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cc: %w\n%s", err, out)
	}
	return nil
}
