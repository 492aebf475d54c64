package administration

import (
	"context"
	"io"
	"mime"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// Drivers manages the drivers for graphics of a box that was flashed. All methods are safe for concurrent use, and
// return what there is then; a change takes effect with the next start of the machine.
type Drivers interface {
	// List says which are installed, and which devices lack one.
	List() admin.Drivers
	// Receive installs a driver extension of so many bytes, or -1. Errors: Unsupported, Unavailable, Busy, TooLarge,
	// Exhausted, Invalid, Denied, Corrupt, Conflict, Exists, and those of the body.
	Receive(ctx context.Context, size int64, body io.Reader) (admin.Drivers, error)
	// Remove removes a driver. Errors: NotFound, Unsupported, Unavailable.
	Remove(ctx context.Context, name string) (admin.Drivers, error)
	// Rollback prefers the version of a driver that was installed before. Errors: NotFound, Conflict, Unsupported,
	// Unavailable.
	Rollback(ctx context.Context, name string) (admin.Drivers, error)
}

// driverRoutes are about the drivers beside the system.
func (h *handlers) driverRoutes() []httpapi.Route {
	const admin, drivers = edgewise.Admin, "/api/v1/system/drivers"
	return []httpapi.Route{
		{Method: "GET", Path: drivers, Handler: get(h.listDrivers), Rights: edgewise.Read},
		{
			Method: "POST", Path: drivers, Handler: h.receiveDriver, Rights: admin, Confirm: true,
			Body: httpapi.UpdateBody, Stream: true, Action: "system.driver_install",
		},
		act("DELETE", drivers+"/:driver", "system.driver_remove", admin, show(h.removeDriver)),
		act("POST", drivers+"/:driver/rollback", "system.driver_rollback", admin, show(h.rollbackDriver)),
	}
}

// listDrivers lists drivers and devices: GET /api/v1/system/drivers.
func (h *handlers) listDrivers() admin.Drivers { return h.System.Drivers().List() }

// receiveDriver installs a driver extension: POST /api/v1/system/drivers. The body goes to the disk as it arrives.
func (h *handlers) receiveDriver(r *httpapi.Request) error {
	in := r.Stream
	if kind, _, _ := mime.ParseMediaType(string(r.Request().Header.ContentType())); kind != mimeFile {
		return httpapi.WithStatus(fiber.StatusUnsupportedMediaType,
			edgewise.Errorf("administration.receiveDriver", edgewise.Invalid, "content type %.100q: want %s", kind, mimeFile))
	}
	if err := r.CheckIdentity(); err != nil {
		return err
	}
	d, err := h.System.Drivers().Receive(r.WorkContext(), in.Length(), in)
	if failed := in.Failure(); failed != nil {
		err = failed // whatever was made of it
	}
	if err != nil {
		return err
	}
	if len(d.Installed) > 0 {
		r.Target = d.Installed[len(d.Installed)-1].Name
	}
	return r.WriteJSON(d)
}

// removeDriver removes a driver: DELETE /api/v1/system/drivers/{driver}.
func (h *handlers) removeDriver(r *httpapi.Request) (admin.Drivers, error) {
	r.Target = r.Param("driver")
	return h.System.Drivers().Remove(r.WorkContext(), r.Target)
}

// rollbackDriver goes back to the version before: POST /api/v1/system/drivers/{driver}/rollback.
func (h *handlers) rollbackDriver(r *httpapi.Request) (admin.Drivers, error) {
	r.Target = r.Param("driver")
	return h.System.Drivers().Rollback(r.WorkContext(), r.Target)
}
