package httpapi

import (
	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise/api"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// Box is what the routes about the box itself need. All methods are safe for concurrent use.
type Box interface {
	// Setup returns the state of the setup, but for what is known of the request. FinishStep marks a step. Errors:
	// NotFound.
	Setup() admin.Setup
	FinishStep(step string) error
	// System and Devices describe the box.
	System() admin.System
	Devices() []admin.Device
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

// document is the OpenAPI document: GET /api/v1/openapi.yaml.
func (s *Server) document(c *fiber.Ctx) error {
	c.Set(fiber.HeaderContentType, "application/yaml")
	return c.Send(api.OpenAPI)
}

// setup says which step is next: GET /api/v1/setup.
func (s *Server) setup(c *fiber.Ctx) error {
	state := s.deps.Box.Setup()
	state.TLS = secure(c.Context())
	return writeJSON(c, state)
}

// finishStep marks a step as done: PUT /api/v1/setup/steps/{step}.
func (s *Server) finishStep(c *fiber.Ctx) error {
	step, err := param(c, "step")
	if err != nil {
		return err
	}
	if err := s.deps.Box.FinishStep(step); err != nil {
		return err
	}
	return s.setup(c)
}

// changeSettings changes settings: PATCH /api/v1/settings.
func (s *Server) changeSettings(c *fiber.Ctx) error {
	var ask admin.SettingsChange
	if err := readBody(c, &ask); err != nil {
		return err
	}
	detail(c, string(c.Body()))
	settings, err := s.deps.Box.ChangeSettings(ask)
	if err != nil {
		return err
	}
	return writeJSON(c, settings)
}

// setTLS uses another certificate: PUT /api/v1/tls.
func (s *Server) setTLS(c *fiber.Ctx) error {
	var ask admin.TLSUpload
	if err := readBody(c, &ask); err != nil {
		return err
	}
	return s.certificate(c)(s.deps.Box.SetTLS(ask))
}

// resetTLS makes a certificate of the box's own authority: DELETE /api/v1/tls.
func (s *Server) resetTLS(c *fiber.Ctx) error {
	return s.certificate(c)(s.deps.Box.ResetTLS())
}

func (s *Server) certificate(c *fiber.Ctx) func(admin.TLS, error) error {
	return func(t admin.TLS, err error) error {
		if err != nil {
			return err
		}
		detail(c, "fingerprint "+t.Fingerprint)
		return writeJSON(c, t)
	}
}

// authority hands out the certificate of the box's own authority: GET /api/v1/tls/authority.
func (s *Server) authority(c *fiber.Ctx) error {
	pem, err := s.deps.Box.Authority()
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, "application/x-pem-file")
	c.Set(fiber.HeaderContentDisposition, `attachment; filename="edgewise-authority.pem"`)
	return c.Send(pem)
}
