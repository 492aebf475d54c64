package administration

import (
	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// Box is what the routes about the box itself need. All methods are safe for concurrent use.
type Box interface {
	// Setup returns the state of the setup, but for what is known of the request. FinishStep marks a step. Errors:
	// NotFound.
	Setup() admin.Setup
	FinishStep(step string) error
	// System, Devices and Backends describe the box.
	System() admin.System
	Devices() []admin.Device
	Backends() []admin.Backend
	// Settings can be changed while the box runs. Errors: Invalid.
	Settings() admin.Settings
	ChangeSettings(c admin.SettingsChange) (admin.Settings, error)
	// Configuration lists the keys that the box was started with.
	Configuration() []admin.ConfigurationKey
	// TLS describes the certificate; the others change it. Errors: Invalid, Conflict without TLS.
	TLS() admin.TLS
	SetTLS(u admin.TLSUpload) (admin.TLS, error)
	ResetTLS() (admin.TLS, error)
	// Authority returns the certificate of the box's own authority, as PEM. Errors: NotFound without one.
	Authority() ([]byte, error)
}

// boxRoutes are about the appliance itself.
func (h *handlers) boxRoutes() []httpapi.Route {
	const admin, read = edgewise.Admin, edgewise.Read
	return []httpapi.Route{
		{Method: "GET", Path: "/api/v1/setup", Handler: h.setup, Public: true},
		{Method: "PUT", Path: "/api/v1/setup/steps/:step", Handler: h.finishStep, Rights: admin},
		{Method: "GET", Path: "/api/v1/system", Handler: get(h.Box.System), Rights: read},
		{Method: "GET", Path: "/api/v1/devices", Handler: get(h.Box.Devices), Rights: read},
		{Method: "GET", Path: "/api/v1/backends", Handler: get(h.Box.Backends), Rights: read},
		{Method: "GET", Path: "/api/v1/settings", Handler: get(h.Box.Settings), Rights: read},
		act("PATCH", "/api/v1/settings", "settings.change", admin, change(h.changeSettings)),
		{Method: "GET", Path: "/api/v1/configuration", Handler: get(h.Box.Configuration), Rights: admin},
		{Method: "GET", Path: "/api/v1/tls", Handler: get(h.Box.TLS), Rights: read},
		confirmed(act("PUT", "/api/v1/tls", "tls.set", admin, change(h.setTLS))),
		confirmed(act("DELETE", "/api/v1/tls", "tls.reset", admin, show(h.resetTLS))),
		{Method: "GET", Path: "/api/v1/tls/authority", Handler: h.authority, Public: true},
	}
}

// setup tells which step is next: GET /api/v1/setup.
func (h *handlers) setup(r *httpapi.Request) error {
	state := h.Box.Setup()
	state.TLS = r.Secure()
	return r.WriteJSON(state)
}

// finishStep marks a step as done: PUT /api/v1/setup/steps/{step}.
func (h *handlers) finishStep(r *httpapi.Request) error {
	if err := h.Box.FinishStep(r.Param("step")); err != nil {
		return err
	}
	return h.setup(r)
}

// changeSettings changes settings: PATCH /api/v1/settings.
func (h *handlers) changeSettings(r *httpapi.Request, ask admin.SettingsChange) (admin.Settings, error) {
	r.Detail = string(r.Body())
	return h.Box.ChangeSettings(ask)
}

// setTLS uses another certificate: PUT /api/v1/tls.
func (h *handlers) setTLS(r *httpapi.Request, ask admin.TLSUpload) (admin.TLS, error) {
	return noteTLS(r)(h.Box.SetTLS(ask))
}

// resetTLS makes a certificate of the box's own authority: DELETE /api/v1/tls.
func (h *handlers) resetTLS(r *httpapi.Request) (admin.TLS, error) {
	return noteTLS(r)(h.Box.ResetTLS())
}

// noteTLS names a new certificate in the audit log.
func noteTLS(r *httpapi.Request) func(admin.TLS, error) (admin.TLS, error) {
	return func(t admin.TLS, err error) (admin.TLS, error) {
		if err == nil {
			r.Detail = "fingerprint " + t.Fingerprint
		}
		return t, err
	}
}

// authority answers with the certificate of the box's own authority: GET /api/v1/tls/authority.
func (h *handlers) authority(r *httpapi.Request) error {
	pem, err := h.Box.Authority()
	if err != nil {
		return err
	}
	r.Set(fiber.HeaderContentType, "application/x-pem-file")
	setFilename(r, "edgewise-authority.pem")
	return r.Send(pem)
}
