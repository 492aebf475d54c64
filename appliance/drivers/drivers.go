// Package drivers is what the page sees of driver extensions: which are installed and in use, which devices lack one,
// and how one is installed through the helper (decision 0102).
package drivers

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/update"
	"github.com/edgewise-ai/edgewise/appliance/update/driver"
	"github.com/edgewise-ai/edgewise/appliance/update/helper"
	"github.com/edgewise-ai/edgewise/host"
)

const (
	incomingFile = "incoming.driver"
	// CatalogueFile of a slot lists the driver extensions that were released with it.
	CatalogueFile = "/usr/share/edgewise/drivers.json"
	maxCatalogue  = 1 << 20 // bytes
	askTimeout    = 20 * time.Second
	askInterval   = 30 * time.Second // while the helper does not answer
	pieceBytes    = 4 << 20          // received between two looks at the disk
)

// Config is what Drivers works with.
type Config struct {
	Packaging update.Packaging
	Helper    helper.Client
	Dir       string                       // folder that an extension is received in
	Root      string                       // of /sys; "/" on a box
	Catalogue string                       // CatalogueFile
	Room      func(size int64) error       // nil when so many bytes find room on the disk
	Next      func() string                // version of the slot that the next start takes, where that is another
	Found     func() []edgewise.DeviceInfo // the devices that models can use
	Logger    *slog.Logger
}

// Drivers installs driver extensions, one at a time. All methods are safe for concurrent use.
type Drivers struct {
	config Config
	turn   chan struct{} // holds one token, which an installation takes

	mu      sync.Mutex // guards what follows
	known   helper.Drivers
	problem error // why the helper was not understood last
}

// New returns Drivers that know nothing before Run.
func New(c Config) *Drivers {
	d := &Drivers{config: c, turn: make(chan struct{}, 1)}
	d.turn <- struct{}{}
	return d
}

func (d *Drivers) path() string { return filepath.Join(d.config.Dir, incomingFile) }

// Run asks the helper what is installed until it answers, or ctx ends. It is called once.
func (d *Drivers) Run(ctx context.Context) {
	if d.config.Packaging.Kind != update.Image {
		return
	}
	_ = os.Remove(d.path()) // of a start before
	ticker := time.NewTicker(askInterval)
	defer ticker.Stop()
	for {
		err := d.ask(ctx, helper.Request{Do: helper.DoDrivers}, nil)
		if err == nil {
			return
		}
		d.config.Logger.Warn("the drivers of this box are not known", "reason", err)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// ask asks the helper, and keeps what it answers.
func (d *Drivers) ask(ctx context.Context, r helper.Request, file *os.File) error {
	if d.config.Packaging.Kind != update.Image {
		return edgewise.Errorf("drivers.ask", edgewise.Unsupported, "only a box that was flashed has driver extensions: "+
			"elsewhere the drivers of the system are used")
	}
	answer, err := d.config.Helper.Ask(ctx, r, file, nil)
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.Do == helper.DoDrivers {
		d.problem = err
	}
	if err == nil && answer.Drivers != nil {
		d.known, d.problem = *answer.Drivers, nil
	}
	return err
}

// Receive stores an extension of so many bytes, or -1, and has the helper check and install it. Errors: Unsupported,
// Busy, TooLarge, Exhausted, Invalid, Denied, Corrupt, Conflict, Exists, and those of the body.
func (d *Drivers) Receive(ctx context.Context, size int64, body io.Reader) (admin.Drivers, error) {
	const op = "drivers.Receive"
	if d.config.Packaging.Kind != update.Image {
		return d.List(), d.ask(ctx, helper.Request{Do: helper.DoDrivers}, nil)
	}
	select {
	case <-d.turn:
		defer func() { d.turn <- struct{}{} }()
	default:
		return d.List(), edgewise.Errorf(op, edgewise.Busy, "another driver extension is on its way: wait for it")
	}
	defer func() { _ = os.Remove(d.path()) }()
	file, err := d.save(size, body)
	if err != nil {
		return d.List(), err
	}
	defer func() { _ = file.Close() }()
	err = d.ask(ctx, helper.Request{Do: helper.DoDriverInstall, Next: d.config.Next()}, file)
	return d.List(), err
}

// save writes the body to the disk. An extension that is none is refused after its header.
func (d *Drivers) save(size int64, body io.Reader) (*os.File, error) {
	const op = "drivers.Receive"
	if size > driver.MaxBytes {
		return nil, edgewise.Errorf(op, edgewise.TooLarge, "the driver extension has %d bytes: at most %d are allowed", size,
			int64(driver.MaxBytes)).WithLimit(driver.MaxBytes)
	}
	if err := d.config.Room(max(size, 0)); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(d.path(), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return nil, edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	got := int64(0)
	for err == nil {
		var n int64
		n, err = io.CopyN(f, body, pieceBytes)
		if got += n; got > driver.MaxBytes {
			err = edgewise.Errorf(op, edgewise.TooLarge, "the driver extension has more than %d bytes", int64(driver.MaxBytes)).
				WithLimit(driver.MaxBytes)
		} else if err == nil {
			err = d.config.Room(pieceBytes)
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := driver.Read(f, got); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Remove removes all versions of a driver; the next start of the machine is without it. Errors: NotFound, Unsupported,
// Unavailable.
func (d *Drivers) Remove(ctx context.Context, name string) (admin.Drivers, error) {
	err := d.ask(ctx, helper.Request{Do: helper.DoDriverRemove, Name: name}, nil)
	return d.List(), err
}

// Rollback prefers the version of a driver that was installed before; the next start uses it. Errors: NotFound,
// Conflict, Unsupported, Unavailable.
func (d *Drivers) Rollback(ctx context.Context, name string) (admin.Drivers, error) {
	err := d.ask(ctx, helper.Request{Do: helper.DoDriverRollback, Name: name}, nil)
	return d.List(), err
}

// released is an entry of the catalogue.
type released struct {
	File     string          `json:"file"`
	Manifest driver.Manifest `json:"manifest"`
}

// catalogue reads what was released with this slot. One that cannot be read is empty.
func (d *Drivers) catalogue() (list []released) {
	f, err := os.Open(d.config.Catalogue)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	if json.NewDecoder(io.LimitReader(f, maxCatalogue)).Decode(&list) != nil {
		return nil
	}
	return list
}

// displays are the devices for graphics of the machine.
func (d *Drivers) displays() []host.Display { return host.Displays(d.config.Root) }
