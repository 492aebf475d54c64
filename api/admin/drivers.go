package admin

import "time"

// Drivers is what a box has for graphics beside its system: GET /api/v1/system/drivers.
type Drivers struct {
	Possible  bool             `json:"possible"`          // whether a driver extension can be installed
	Problem   string           `json:"problem,omitempty"` // why it cannot
	Installed []Driver         `json:"installed"`         // the preferred version of a driver first
	Devices   []GraphicsDevice `json:"devices"`           // for graphics, on the PCI bus
	Restart   bool             `json:"restart"`           // the next start of the machine uses other drivers than this one
}

// Driver is an installed driver extension.
type Driver struct {
	Name      string    `json:"name"`
	Version   string    `json:"version"`
	Kind      string    `json:"kind"` // vulkan or cuda
	Size      int64     `json:"size"` // bytes
	Installed time.Time `json:"installed"`
	Mounted   bool      `json:"mounted"`          // it is in use
	Next      bool      `json:"next"`             // the next start uses it, where it fits
	Reason    string    `json:"reason,omitempty"` // why this start does not use it, or what went wrong beside that
}

// GraphicsDevice is a device for graphics of the machine.
type GraphicsDevice struct {
	BusID  string       `json:"bus_id"` // as 0000:03:00.0
	Vendor string       `json:"vendor"` // AMD, Intel, NVIDIA, or 4 hexadecimal digits
	Name   string       `json:"name"`   // as "AMD GPU 1002:73df"
	Served bool         `json:"served"` // by a driver extension that is in use, or by the system's own driver
	Text   string       `json:"text"`
	Offer  *DriverOffer `json:"offer,omitempty"` // what was released with this system for it
}

// DriverOffer is a driver extension that was released with a system.
type DriverOffer struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	File    string `json:"file"` // its name in the release
	Size    int64  `json:"size"` // bytes to download
}
