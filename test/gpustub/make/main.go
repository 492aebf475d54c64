// Command make writes the libraries that stand in for NVIDIA's, the driver among them, into a folder: make PROVIDER
// TARGET.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/edgewise-ai/edgewise/test/fakegpu"
	"github.com/edgewise-ai/edgewise/test/gpustub"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "want: make PROVIDER TARGET")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "make:", err)
		os.Exit(1)
	}
}

func write(provider, target string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := gpustub.Make(provider, target); err != nil {
		return err
	}
	driver, err := fakegpu.Compile("libcuda", os.TempDir())
	if err != nil {
		return err
	}
	content, err := os.ReadFile(driver)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(target, "libcuda.so.1"), content, 0o755)
}
