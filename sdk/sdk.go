// Package sdk carries the guest SDKs, so that the program can write them into a new step's folder and build a step that
// has none: a folder for each language, and a template of a step for each.
package sdk

import (
	"embed"
	"io/fs"
)

//go:embed c go rust assemblyscript template gallery
var files embed.FS

// Files returns the SDKs as they stand in the source tree: c, go, rust, assemblyscript, and template with a folder for
// each of them. Files whose name ends in .txt behind another ending are meant to lose it when they are copied.
func Files() fs.FS { return files }
