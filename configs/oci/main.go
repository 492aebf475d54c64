// Command oci writes a folder as a container image, as an OCI image layout.
// See https://github.com/opencontainers/image-spec/blob/main/image-layout.md
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	o := options{}
	flag.StringVar(&o.root, "root", "", "folder that becomes the root file system")
	flag.StringVar(&o.arch, "arch", "amd64", "architecture: amd64 or arm64")
	flag.StringVar(&o.version, "version", "", "version of what is in it")
	flag.StringVar(&o.out, "out", "", "folder of the layout; an image of another architecture that is there stays")
	epoch := flag.Int64("time", 0, "seconds since 1970 that all files have been changed at")
	flag.Parse()
	o.time = time.Unix(*epoch, 0).UTC()
	d, err := write(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "oci:", err)
		os.Exit(1)
	}
	fmt.Printf("%s: %s for %s\n", o.out, d.Digest, o.arch)
}
