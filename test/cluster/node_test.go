//go:build cluster

package cluster

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

var (
	inside   = flag.String("cluster.inside", "", "set by TestNode, which runs itself in namespaces of its own: the folder of the node")
	image    = flag.String("cluster.image", "", "folder with the image that \"make oci\" has made")
	rollouts = flag.Int("cluster.rollouts", 3, "rolling updates under load")
)

// groups is where the controllers of cgroup v1 are, the parents of a node's groups.
const groups = "/sys/fs/cgroup"

// TestNode runs a node, with kubelet, containerd and kube-proxy, the rest of the cluster and its clients in a network, a file
// system and a tree of processes of their own. When the first of these processes ends, the kernel ends the others and
// takes the mounts and networks away: nothing stays on the machine, however the test ends.
func TestNode(t *testing.T) {
	if *inside != "" {
		runNode(t, *inside)
		return
	}
	if os.Geteuid() != 0 {
		t.Fatal("a node makes namespaces, mounts and control groups: run this as root, or leave it out by -skip '^TestNode$'")
	}
	if *image == "" {
		t.Fatal("-cluster.image is a folder with the image that \"make oci\" has made")
	}
	dir, before := t.TempDir(), traces(t)
	group := makeGroup(t)
	err := runInside(t, dir, group)
	removeGroup(t, group)
	if err != nil {
		t.Errorf("the node: %v", err)
	}
	if after := traces(t); after != before {
		t.Errorf("the machine was\n%s\nand is\n%s", before, after)
	}
	wantNothingOf(t, dir)
}

// runInside runs this test once more, in namespaces of its own.
func runInside(t *testing.T, dir, group string) error {
	t.Helper()
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if end, ok := t.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-30*time.Second)) // for what comes after
		defer cancel()
	}
	runtime.LockOSThread() // the process inside ends with the thread that has started it
	defer runtime.UnlockOSThread()
	self := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestNode$", "-test.v=true", "-test.timeout=0", "-cluster.inside="+dir,
		"-cluster.group="+group, "-cluster.tools="+*tools, "-cluster.image="+*image, fmt.Sprint("-cluster.rollouts=", *rollouts))
	self.Env = append(os.Environ(), "TMPDIR="+dir) // which goes, even if this is killed before it can clean up
	self.Stdout, self.Stderr = os.Stdout, os.Stderr
	self.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
	}
	return errors.Join(self.Run(), ctx.Err())
}

// makeGroup makes a control group in each hierarchy, and returns its name.
func makeGroup(t *testing.T) string {
	t.Helper()
	name := fmt.Sprint("/edgewise-node-", os.Getpid())
	for _, controller := range controllers(t) {
		folder := filepath.Join(controller, name)
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, inherited := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(controller, inherited))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(folder, inherited), value, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return name
}

// controllers are the folders of the hierarchies.
func controllers(t *testing.T) (folders []string) {
	t.Helper()
	entries, err := os.ReadDir(groups)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		folder := filepath.Join(groups, e.Name())
		if _, err := os.Stat(filepath.Join(folder, "cgroup.procs")); err == nil && e.IsDir() {
			folders = append(folders, folder)
		}
	}
	return folders
}

// removeGroup removes a control group with those below it. The kernel lets their last processes go a moment after they have
// ended.
func removeGroup(t *testing.T, name string) {
	t.Helper()
	for _, controller := range controllers(t) {
		var below []string
		_ = filepath.WalkDir(filepath.Join(controller, name), func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				below = append(below, path)
			}
			return nil
		})
		for i := len(below) - 1; i >= 0; i-- {
			await(t, "the end of the group "+below[i], func() bool { return syscall.Rmdir(below[i]) == nil })
		}
	}
}

// machineWide are settings of the machine that kubelet writes, with the values that it wants.
var machineWide = map[string]string{
	"/proc/sys/vm/overcommit_memory": "1", "/proc/sys/vm/panic_on_oom": "0", "/proc/sys/kernel/panic": "10",
	"/proc/sys/kernel/panic_on_oops": "1", "/proc/sys/kernel/keys/root_maxkeys": "1000000",
	"/proc/sys/kernel/keys/root_maxbytes": "25000000",
}

// traces says what of a node would be seen on the machine.
func traces(t *testing.T) string {
	t.Helper()
	var seen strings.Builder
	for _, place := range []string{
		"/var/lib/kubelet", "/var/lib/containerd", "/var/lib/cni", "/var/log/pods", "/var/log/containers", "/run/containerd", "/run/netns",
		"/etc/cni", "/etc/containerd", "/opt/cni", "/opt/containerd", "/usr/libexec/kubernetes",
	} {
		if _, err := os.Lstat(place); err == nil {
			fmt.Fprintln(&seen, place)
		}
	}
	for setting := range machineWide {
		value, err := os.ReadFile(setting)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&seen, "%s %s", setting, value)
	}
	return sorted(seen.String())
}

// wantNothingOf claims that no mount and no process of a node is left.
func wantNothingOf(t *testing.T, dir string) {
	t.Helper()
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || bytes.Contains(mounts, []byte(dir)) {
		t.Errorf("mounts of %s are left: %v\n%s", dir, err, mounts)
	}
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, process := range processes {
		if command, err := os.ReadFile(process); err == nil && bytes.Contains(command, []byte(dir)) {
			t.Errorf("%s is left: %q", process, command)
		}
	}
}
