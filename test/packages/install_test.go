// Package packages tests how the project's packages are made, and how those that it needs are installed.
package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// locked are what apt-get says of each lock that another package manager may hold, and of archives that one has removed.
var locked = []string{
	"E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)",
	"E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (apt)",
	"E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?",
	"E: Unable to lock directory /var/cache/apt/archives/",
	" cannot access archive '/tmp/apt-dpkg-install-es44vw/017-libjxl0.7_0.7.0-10_amd64.deb': No such file or directory",
}

// install runs the installer beside an apt-get that says, call by call, what is in answers: "" is success.
func install(t *testing.T, patience string, answers ...string) (output string, calls []string, err error) {
	t.Helper()
	bin := t.TempDir()
	for i, answer := range answers {
		if err := os.WriteFile(filepath.Join(bin, "answer-"+string(rune('a'+i))), []byte(answer), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, script := range map[string]string{
		"id":    "echo 0",
		"sleep": "true",
		"apt-get": `echo "$*" >>` + bin + `/calls
for answer in ` + bin + `/answer-*; do
	[ -e "$answer" ] || exit 0
	text=$(cat "$answer"); rm "$answer"
	[ -n "$text" ] || exit 0
	echo "$text" >&2; exit 100
done`,
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("../../configs/debian/install.sh", "a test needs", "this", "that")
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "APT_LOCK_SECONDS="+patience)
	out, err := cmd.CombinedOutput()
	text, _ := os.ReadFile(filepath.Join(bin, "calls"))
	return string(out), strings.Split(strings.TrimSpace(string(text)), "\n"), err
}

func TestAnInstallationWaitsForTheLocksOfOthers(t *testing.T) {
	for _, lock := range locked {
		out, calls, err := install(t, "900", lock, lock, "", lock, "")
		if err != nil || len(calls) != 5 || !strings.Contains(calls[0], "update") ||
			!strings.HasSuffix(calls[4], "install -y --no-install-recommends this that") {
			t.Errorf("%s:\n%v\n%s\n%s", lock, err, out, strings.Join(calls, "\n"))
		}
	}
}

func TestAnInstallationEndsWhereWaitingDoesNotHelp(t *testing.T) {
	for _, test := range []struct{ name, patience, answer, want string }{
		{"a package that does not exist", "900", "E: Unable to locate package this", "Unable to locate package"},
		{"a lock that is not given back", "0", locked[0], "held its lock for 0 s"},
	} {
		out, calls, err := install(t, test.patience, test.answer)
		if err == nil || len(calls) != 1 || !strings.Contains(out, test.want) ||
			!strings.Contains(out, "missing: this that (on Debian: sudo apt-get install this that)") {
			t.Errorf("%s: %v\n%s\n%s", test.name, err, out, strings.Join(calls, "\n"))
		}
	}
}

// TestPackagesAreInstalledInOnePlace holds the Makefile and the scripts that it runs to the installer. A chroot of a
// test, and an image that is being made, have no other package manager.
func TestPackagesAreInstalledInOnePlace(t *testing.T) {
	runs := regexp.MustCompile(`(^|[&|;({])\s*apt-get (-\S+ )*(update|install)`)
	read := 0
	err := filepath.WalkDir("../../configs", func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".sh" || strings.HasSuffix(path, "debian/install.sh") {
			return err
		}
		read++
		return check(t, path, runs)
	})
	if err == nil {
		err = check(t, "../../Makefile", runs)
	}
	if err != nil || read < 5 {
		t.Errorf("%d scripts were read: %v", read, err)
	}
}

func check(t *testing.T, path string, runs *regexp.Regexp) error {
	text, err := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		if at := runs.FindString(line); at != "" && !strings.Contains(line, "echo ") {
			t.Errorf("%s runs apt-get by itself: %s", path, strings.TrimSpace(line))
		}
	}
	return err
}
