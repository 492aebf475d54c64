package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// made are files that packages make when they are installed, and that this project's scripts make. A folder ends with
// '/'.
var made = []string{
	"boot/initrd.img", "boot/vmlinuz", "etc/.resolv.conf.systemd-resolved.bak", "etc/default/locale", "etc/motd",
	"etc/mtab", "etc/security/opasswd", "etc/vconsole.conf", "root/",
	"dev/", "proc/", "run/", "sys/", "tmp/", "var/", "etc/.pwd.lock", "etc/.updated",
	"etc/alternatives/", "etc/ca-certificates.conf", "etc/dpkg/", "etc/environment", "etc/fstab", "etc/group",
	"etc/gshadow", "etc/hostname", "etc/hosts",
	"etc/initramfs-tools/", "etc/ld.so.cache", "etc/locale.conf", "etc/localtime", "etc/machine-id", "etc/modules",
	"etc/nsswitch.conf", "etc/os-release",
	"etc/pam.d/", "etc/passwd", "etc/profile", "etc/rauc/ca.pem", "etc/rc", "etc/resolv.conf", "etc/shadow", "etc/shells", "etc/ssl/certs/",
	"etc/subgid", "etc/subuid", "etc/systemd/system/", "etc/systemd/user/", "etc/timezone", "etc/apt/",
	"usr/lib/clock-epoch", "usr/lib/modules/",
	"usr/lib/os-release", "usr/lib/systemd/system/", "usr/lib/udev/hwdb.bin", "usr/share/edgewise/",
	"etc/kernel/", "initrd.img", "vmlinuz", "lib", "bin", "sbin", "usr/sbin/policy-rc.d", "usr/share/info/", "usr/local/man",
}

// unlisted returns the files of a slot that belong to no package, are not in the overlay and are not made.
func unlisted(root, overlay string) ([]string, error) {
	owned, err := owners(root)
	if err != nil {
		return nil, err
	}
	var strays []string
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil || owned[name] || isMade(name) {
			return err
		}
		if target, err := os.Readlink(path); err == nil && strings.HasPrefix(target, "/etc/alternatives/") {
			return nil
		}
		if _, err := os.Lstat(filepath.Join(overlay, name)); err != nil {
			strays = append(strays, name)
		}
		return nil
	})
	return strays, err
}

func isMade(name string) bool {
	// names that carry the kernel's version, and a configuration's last state, go on after the name
	return slices.ContainsFunc(made, func(m string) bool {
		if strings.HasSuffix(m, "/") {
			return strings.HasPrefix(name, m)
		}
		return name == m || strings.HasPrefix(name, m+"-") || strings.HasPrefix(name, m+".")
	}) || slices.ContainsFunc([]string{"etc/rc"}, func(m string) bool { return strings.HasPrefix(name, m) })
}

// owners reads which files the packages of dpkg own. Since /lib and its like are links into /usr, both names are taken.
func owners(root string) (map[string]bool, error) {
	info := filepath.Join(root, "var/lib/dpkg/info")
	lists, err := filepath.Glob(filepath.Join(info, "*.list"))
	if err != nil {
		return nil, err
	}
	conffiles, err := filepath.Glob(filepath.Join(info, "*.conffiles"))
	if err != nil {
		return nil, err
	}
	owned := map[string]bool{}
	for _, list := range append(lists, conffiles...) {
		text, err := os.ReadFile(list)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			name := strings.TrimPrefix(strings.TrimSpace(line), "/")
			owned[name] = true
			owned["usr/"+name] = true
		}
	}
	return owned, nil
}
