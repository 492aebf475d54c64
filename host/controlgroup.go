package host

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// memoryBound is a control group that bounds the memory of this process. used leaves out what the kernel takes back before
// it ends a process: files that it keeps in memory.
type memoryBound struct{ limit, used int64 }

// memoryFiles are the files of a control group that tell of its memory. Both versions of control groups are read:
// systems of 2020 and before, among them those of NVIDIA's Jetson, have the first.
type memoryFiles struct {
	controller string // of the line in /proc/self/cgroup; empty for version 2
	mounted    string
	limit      string
	used       string
	cached     [2]string // lines of memory.stat, for the group and those below it
}

func memoryVersions() []memoryFiles {
	return []memoryFiles{
		{"", "sys/fs/cgroup", "memory.max", "memory.current", [2]string{"inactive_file", "active_file"}},
		{
			"memory", "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
			[2]string{"total_inactive_file", "total_active_file"},
		},
	}
}

// memoryBounds lists the control groups that bound the memory of this process.
func memoryBounds(root string) (list []memoryBound) {
	for _, files := range memoryVersions() {
		for _, group := range controlGroups(root, files.mounted, files.controller) {
			limit, bounded := number(filepath.Join(group, files.limit))
			used, known := number(filepath.Join(group, files.used))
			if !bounded {
				continue
			}
			if !known {
				used = 0
			}
			text, _ := os.ReadFile(filepath.Join(group, "memory.stat"))
			for line := range strings.Lines(string(text)) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
				n, err := strconv.ParseInt(value, 10, 64)
				if err == nil && (name == files.cached[0] || name == files.cached[1]) {
					used -= n
				}
			}
			list = append(list, memoryBound{limit, max(used, 0)})
		}
	}
	return list
}

// controlGroups lists the folders of the control group of this process for a controller, and of those above it, as far
// as they can be seen: in a container they begin at its own.
func controlGroups(root, mounted, controller string) (list []string) {
	text, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	path := ""
	for line := range strings.Lines(string(text)) { // such as 4:cpu,memory:/path
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, in, _ := strings.Cut(rest, ":")
		for own := range strings.SplitSeq(controllers, ",") {
			if own == controller {
				path = in
			}
		}
	}
	for path = filepath.Clean("/" + path); path != "/"; path = filepath.Dir(path) {
		list = append(list, filepath.Join(root, mounted, path))
	}
	return append(list, filepath.Join(root, mounted))
}
