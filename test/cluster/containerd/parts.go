//go:build tools

// Package containerd pins the version of the containerd that test/cluster builds.
package containerd

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd/builtins"
	_ "github.com/containerd/containerd/v2/cmd/containerd/command"
)
