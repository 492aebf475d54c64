// Package controlgroup runs programs in memory control groups of the kernel, of either version, so that tests and
// benchmarks see what the kernel does where a box has little memory.
package controlgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Group is a control group with a bound for its memory, below that of this process.
type Group struct {
	dir     string
	version version
}

// version is how the files of a version of control groups are called.
type version struct {
	controller string // of the line in /proc/self/cgroup; empty for version 2
	mounted    string
	limit      string
	kills      string // has the line oom_kill
}

func versions() []version {
	return []version{
		{"", "/sys/fs/cgroup", "memory.max", "memory.events"},
		{"memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.oom_control"},
	}
}

// New makes a group with a bound in bytes. It needs the rights of root, or of who a part of the tree was delegated to.
func New(name string, limit int64) (*Group, error) {
	var failed []error
	for _, v := range versions() {
		for _, above := range []string{v.own(), "/"} {
			g := &Group{filepath.Join(v.mounted, above, name), v}
			err := g.make(limit)
			if err == nil {
				return g, nil
			}
			failed = append(failed, err)
		}
	}
	return nil, fmt.Errorf("no control group can be made: %w", errors.Join(failed...))
}

// own is the path of the group of this process.
func (v version) own() string {
	text, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(text)) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		if slices.Contains(strings.Split(controllers, ","), v.controller) {
			return path
		}
	}
	return "/"
}

func (g *Group) make(limit int64) error {
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return err
	}
	bound, err := os.OpenFile(filepath.Join(g.dir, g.version.limit), os.O_WRONLY, 0) // only the kernel makes it
	if err == nil {
		_, err = bound.WriteString(strconv.FormatInt(limit, 10))
		err = errors.Join(err, bound.Close())
	}
	if err != nil {
		return errors.Join(err, os.Remove(g.dir))
	}
	return nil
}

// Wrapper is a command that runs the one behind it in the group.
func (g *Group) Wrapper() []string {
	return []string{"sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, g.dir}
}

// Script is a shell script that runs a program in the group, with its own arguments.
func (g *Group) Script(program string) string {
	return fmt.Sprintf("#!/bin/sh\necho $$ > '%s/cgroup.procs' && exec '%s' \"$@\"\n", g.dir, program)
}

// Kills is how many processes the kernel has ended because the memory of the group was used up.
func (g *Group) Kills() (int64, error) {
	text, err := os.ReadFile(filepath.Join(g.dir, g.version.kills))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("%s does not tell", g.version.kills)
}

// Close removes the group, once its last process has ended.
func (g *Group) Close() (err error) {
	for end := time.Now().Add(10 * time.Second); ; {
		if err = os.Remove(g.dir); err == nil || time.Now().After(end) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}
