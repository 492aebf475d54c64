package image

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// machineTools stand in for what a slot has: systemctl, mount and GRUB's tool, which work on the files up and grubenv
// of $FAKE.
var machineTools = map[string]string{
	"systemctl": `[ "$2 $3" = "is-active edgewise.service" ] && [ -e "$FAKE/up" ]`,
	"mount":     `mkdir -p "$6/EFI/debian"; ln -s "$FAKE/grubenv" "$6/EFI/debian/grubenv"`,
	"umount":    `rm "$1/EFI/debian/grubenv"; touch "$FAKE/unmounted"`,
	"grub-editenv": `case $2 in
list) cat "$1" ;;
set) sed -i --follow-symlinks "s/^${3%%=*}=.*/$3/" "$1" ;;
esac`,
}

func TestAnOrderlyRestartBeforeTheCheckIsNotCounted(t *testing.T) {
	const counted = "ORDER=B A\nA_OK=1\nA_TRY=0\nB_OK=1\nB_TRY=2\n"
	tests := []struct {
		name    string
		files   map[string]string // of $FAKE, and given of the state
		slot    string
		want    string // GRUB's variables afterwards
		given   string // how many tries have been given back in a row
		mounted bool
	}{
		{
			"in the first minute",
			map[string]string{"up": "", "grubenv": counted},
			"B",
			strings.Replace(counted, "B_TRY=2", "B_TRY=1", 1), "1", true,
		},
		{
			"the tenth in a row",
			map[string]string{"up": "", "grubenv": counted, "given": "9"},
			"B",
			strings.Replace(counted, "B_TRY=2", "B_TRY=1", 1), "10", true,
		},
		{"one in a row too many", map[string]string{"up": "", "grubenv": counted, "given": "10"}, "B", counted, "10", false},
		{"the check has passed", map[string]string{"up": "", "grubenv": counted}, "A", counted, "", true},
		{"the check has failed", map[string]string{"up": "", "failed": "", "grubenv": counted}, "B", counted, "", false},
		{"the box is not up, or was given up", map[string]string{"grubenv": counted}, "B", counted, "", false},
	}
	script, err := filepath.Abs(filepath.Join("../../configs/image/root", "usr/lib/edgewise/give-back"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fake, tools, state := t.TempDir(), t.TempDir(), t.TempDir()
			for name, text := range machineTools {
				put(t, filepath.Join(tools, name), "#!/bin/sh\n"+text+"\n")
			}
			for name, text := range tt.files {
				put(t, filepath.Join(fake, name), text)
			}
			if given, ok := tt.files["given"]; ok {
				put(t, filepath.Join(state, "given"), given+"\n")
			}
			line := filepath.Join(fake, "cmdline")
			put(t, line, "ro rauc.slot="+tt.slot+" quiet\n")
			cmd := exec.CommandContext(t.Context(), script, line, filepath.Join(fake, "failed"))
			cmd.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"), "FAKE="+fake, "RUNTIME_DIRECTORY="+t.TempDir(),
				"STATE_DIRECTORY="+state)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if got := read(t, filepath.Join(fake, "grubenv")); got != tt.want {
				t.Errorf("GRUB's variables are %q: want %q", got, tt.want)
			}
			if got := strings.TrimSpace(read(t, filepath.Join(state, "given"))); got != tt.given {
				t.Errorf("%q tries were given back in a row: want %q", got, tt.given)
			}
			if _, err := os.Stat(filepath.Join(fake, "unmounted")); (err == nil) != tt.mounted {
				t.Errorf("the boot partition was mounted and unmounted: %v: want %v", err == nil, tt.mounted)
			}
		})
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// read returns a file's text, or "" when there is none.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}
