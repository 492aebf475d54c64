package helper

import (
	"os"
	"path/filepath"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/update/driver"
)

// DriverFolder is where driver extensions are kept, in the helper's folder.
const DriverFolder = "drivers"

// drivers does one thing about driver extensions, and returns what there is then. A change takes effect with the next
// start of the machine.
func (s *Server) drivers(r Request, file *os.File) (*Drivers, error) {
	const op = "helper.drivers"
	if !s.config.Image {
		return nil, edgewise.Errorf(op, edgewise.Unsupported, "only a box that was flashed has driver extensions: "+
			"elsewhere the drivers of the system are used")
	}
	folder := driver.Folder{Path: filepath.Join(s.config.Folder, DriverFolder), Keys: s.config.Keys}
	var err error
	switch r.Do {
	case DoDriverInstall:
		if file == nil {
			return nil, edgewise.Errorf(op, edgewise.Invalid, "no driver extension came with the request")
		}
		_, err = folder.Install(driver.Offer{File: file, System: s.config.System, Next: r.Next})
	case DoDriverRemove:
		err = folder.Remove(r.Name)
	case DoDriverRollback:
		_, err = folder.Rollback(r.Name, s.config.System)
	}
	if err != nil {
		return nil, err
	}
	state, err := folder.State()
	if err != nil {
		return nil, err
	}
	mounted, err := driver.ReadMounted(s.config.Mounts)
	return &Drivers{Entries: state.Entries, Mounted: mounted}, err
}
