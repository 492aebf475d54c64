// Command oci writes a folder as a container image, as an OCI image layout, and checks such a layout.
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
	check := flag.String("check", "", "check a layout instead, and unpack its image of -arch into -root where that is given")
	flag.Parse()
	o.time = time.Unix(*epoch, 0).UTC()
	if err := run(o, *check); err != nil {
		fmt.Fprintln(os.Stderr, "oci:", err)
		os.Exit(1)
	}
}

func run(o options, check string) error {
	if check != "" {
		image, err := checkLayout(check, o.arch)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %s, user %s, %d MB\n", check, image.manifest, image.config.Config.User, image.size/1e6)
		if o.root != "" {
			return image.unpack(o.root)
		}
		return nil
	}
	d, err := write(o)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s for %s\n", o.out, d.Digest, o.arch)
	return nil
}
