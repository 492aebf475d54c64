package administration

import (
	"context"
	"encoding/base64"
	"io"
	"mime"
	"slices"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

const (
	// SignatureHeader carries the signature of a package, as base64 of its .minisig file. A bundle carries its own.
	SignatureHeader = "Edgewise-Signature"
	// maxSignature bounds the signature.
	maxSignature = 4 << 10
)

// NewUpdate is an update as it is sent.
type NewUpdate struct {
	Size      int64 // bytes announced; -1: they were not
	Body      io.Reader
	Signature string // of a package; empty: none was sent
	Confirmed bool   // take also what asks for a confirmation
}

// System changes the system that the box runs on. All methods are safe for concurrent use.
type System interface {
	// Update says how the box is updated and where that stands.
	Update() admin.SystemUpdate
	// Receive takes an update and begins to install it. Errors: Unsupported, Unavailable, Busy, Exhausted, Invalid,
	// Denied, Canceled, and those of the body.
	Receive(ctx context.Context, p *edgewise.Principal, n NewUpdate) (admin.SystemUpdate, error)
	// Install goes on with an update that waits for a confirmation. Errors: Conflict, Busy.
	Install(ask admin.UpdateInstall) (admin.SystemUpdate, error)
	// Cancel gives an update up. Errors: NotFound, Conflict.
	Cancel(ctx context.Context) (admin.SystemUpdate, error)
	// Rollback goes back to the version that ran before. Errors: Conflict, Unsupported.
	Rollback(ctx context.Context) (admin.SystemUpdate, error)
	// Restart restarts what an update needs to take effect. Errors: Unsupported, Unavailable.
	Restart(ctx context.Context) error
	// FactoryReset erases models, accounts and settings. Errors: Invalid, Unsupported, Unavailable.
	FactoryReset(ctx context.Context, ask admin.FactoryReset) error
	// BootLog is the log of the start that failed last; AcknowledgeBoot takes the news of it away. Errors: NotFound.
	BootLog() ([]byte, error)
	AcknowledgeBoot() error
	// LeaveSafeStart loads the models that a safe start has left out. Errors: Conflict.
	LeaveSafeStart() error
	// Drivers manages the drivers for graphics that are mounted beside the system.
	Drivers() Drivers
}

// systemRoutes are about the system below the appliance.
func (h *handlers) systemRoutes() []httpapi.Route {
	return slices.Concat(h.updateRoutes(), h.driverRoutes())
}

// updateRoutes are about updates, restarts and starts.
func (h *handlers) updateRoutes() []httpapi.Route {
	const admin, system, update = edgewise.Admin, "/api/v1/system", "/api/v1/system/update"
	return []httpapi.Route{
		{Method: "GET", Path: update, Handler: get(h.System.Update), Rights: edgewise.Read},
		{
			Method: "POST", Path: update, Handler: h.receiveUpdate, Rights: admin, Confirm: true,
			Body: httpapi.UpdateBody, Stream: true, Action: "system.update",
		},
		act("DELETE", update, "system.update_cancel", admin, show(h.cancelUpdate)),
		act("POST", update+"/install", "system.update_install", admin, change(h.installUpdate)),
		confirmed(act("POST", system+"/rollback", "system.rollback", admin, show(h.rollbackSystem))),
		act("POST", system+"/restart", "system.restart", admin, show(h.restart)),
		confirmed(act("POST", system+"/factory-reset", "system.factory_reset", admin, change(h.factoryReset))),
		{Method: "GET", Path: system + "/failed-boot/log", Handler: h.bootLog, Rights: admin},
		act("DELETE", system+"/failed-boot", "system.failed_boot", admin, run(h.acknowledgeBoot)),
		act("DELETE", system+"/safe-start", "system.safe_start", edgewise.Operate, run(h.leaveSafeStart)),
	}
}

// receiveUpdate takes an update: POST /api/v1/system/update. The body goes to the disk as it arrives.
func (h *handlers) receiveUpdate(r *httpapi.Request) error {
	const op = "administration.receiveUpdate"
	in := r.Stream
	if kind, _, _ := mime.ParseMediaType(string(r.Request().Header.ContentType())); kind != mimeFile {
		return httpapi.WithStatus(fiber.StatusUnsupportedMediaType,
			edgewise.Errorf(op, edgewise.Invalid, "content type %.100q: want %s", kind, mimeFile))
	}
	if err := r.CheckIdentity(); err != nil {
		return err
	}
	signature := r.Get(SignatureHeader)
	text, err := base64.StdEncoding.DecodeString(signature)
	if err != nil || len(text) > maxSignature {
		return edgewise.Errorf(op, edgewise.Invalid, "header %s is not the base64 of a .minisig file of at most %d bytes",
			SignatureHeader, maxSignature)
	}
	confirmed := r.Query("confirmed")
	if confirmed != "" && confirmed != "true" && confirmed != "false" {
		return edgewise.Errorf(op, edgewise.Invalid, "query parameter confirmed is %.40q: want true or false", confirmed)
	}
	u, err := h.System.Receive(r.WorkContext(), r.Caller, NewUpdate{
		Size: in.Length(), Body: in, Signature: string(text),
		Confirmed: confirmed == "true",
	})
	if failed := in.Failure(); failed != nil {
		err = failed // whatever was made of it
	}
	if u.Job != nil {
		r.Target = u.Job.Version
	}
	if err != nil {
		return err
	}
	r.Status(fiber.StatusAccepted)
	return r.WriteJSON(u)
}

// accepted answers 202 with the state of an update that has begun, and names its version in the audit log.
func accepted(r *httpapi.Request) func(admin.SystemUpdate, error) (admin.SystemUpdate, error) {
	return func(u admin.SystemUpdate, err error) (admin.SystemUpdate, error) {
		if err == nil {
			r.Detail = "version " + u.Version
			r.Status(fiber.StatusAccepted)
		}
		return u, err
	}
}

// installUpdate continues an update: POST /api/v1/system/update/install.
func (h *handlers) installUpdate(r *httpapi.Request, ask admin.UpdateInstall) (admin.SystemUpdate, error) {
	return accepted(r)(h.System.Install(ask))
}

// cancelUpdate ends an update that is not installed: DELETE /api/v1/system/update.
func (h *handlers) cancelUpdate(r *httpapi.Request) (admin.SystemUpdate, error) {
	return h.System.Cancel(r.WorkContext())
}

// rollbackSystem goes back to the system before: POST /api/v1/system/rollback.
func (h *handlers) rollbackSystem(r *httpapi.Request) (admin.SystemUpdate, error) {
	return accepted(r)(h.System.Rollback(r.WorkContext()))
}

// acknowledgeBoot ends the notice of a failed start: DELETE /api/v1/system/failed-boot.
func (h *handlers) acknowledgeBoot(*httpapi.Request) error { return h.System.AcknowledgeBoot() }

// leaveSafeStart ends the safe start: DELETE /api/v1/system/safe-start.
func (h *handlers) leaveSafeStart(*httpapi.Request) error { return h.System.LeaveSafeStart() }

// restart restarts the appliance: POST /api/v1/system/restart.
func (h *handlers) restart(r *httpapi.Request) (u admin.SystemUpdate, err error) {
	if err := h.System.Restart(r.WorkContext()); err != nil {
		return u, err
	}
	return accepted(r)(h.System.Update(), nil)
}

// factoryReset erases the appliance: POST /api/v1/system/factory-reset.
func (h *handlers) factoryReset(r *httpapi.Request, ask admin.FactoryReset) (u admin.SystemUpdate, err error) {
	if err := h.System.FactoryReset(r.WorkContext(), ask); err != nil {
		return u, err
	}
	return accepted(r)(h.System.Update(), nil)
}

// bootLog returns the log of a start that failed: GET /api/v1/system/failed-boot/log.
func (h *handlers) bootLog(r *httpapi.Request) error {
	text, err := h.System.BootLog()
	if err != nil {
		return err
	}
	r.Set(fiber.HeaderContentType, fiber.MIMETextPlainCharsetUTF8)
	return r.Send(text)
}
