package driver

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise/appliance/update"
	"github.com/edgewise-ai/edgewise/pattern"
)

var slotForm = pattern.New(`\brauc\.slot=([AB])\b`)

// Running describes the system that runs: release is its os-release, commandLine the kernel's.
func Running(release, commandLine string) System {
	values := update.ReadRelease(release)
	s := System{Architecture: runtime.GOARCH, Level: values["SYSEXT_LEVEL"], Version: values["VERSION_ID"]}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		s.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	text, _ := os.ReadFile(commandLine)
	if found := slotForm.FindSubmatch(text); found != nil {
		s.Slot = string(found[1])
	}
	return s
}
