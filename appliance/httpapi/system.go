package httpapi

import (
	"context"
	"encoding/base64"
	"io"
	"mime"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

const (
	updatePath = "/api/v1/system/update"
	// MaxUpdateBytes bounds an update of the system.
	MaxUpdateBytes = 2 << 30
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
}

// system answers with how the box is updated.
func (s *Server) system(c *fiber.Ctx) func(admin.SystemUpdate, error) error {
	return func(u admin.SystemUpdate, err error) error {
		if err != nil {
			return err
		}
		return writeJSON(c, u)
	}
}

// accepted answers that something has begun.
func (s *Server) accepted(c *fiber.Ctx) func(admin.SystemUpdate, error) error {
	return func(u admin.SystemUpdate, err error) error {
		if err != nil {
			return err
		}
		detail(c, "version "+u.Version)
		c.Status(fiber.StatusAccepted)
		return writeJSON(c, u)
	}
}

// receiveUpdate takes an update: POST /api/v1/system/update. The body goes to the disk as it arrives.
func (s *Server) receiveUpdate(c *fiber.Ctx) error {
	const op = "httpapi.receiveUpdate"
	in := streamOf(c)
	if kind, _, _ := mime.ParseMediaType(string(c.Request().Header.ContentType())); kind != mimeFile {
		return &special{
			fiber.StatusUnsupportedMediaType,
			edgewise.Errorf(op, edgewise.Invalid, "content type %.100q: want %s", kind, mimeFile),
		}
	}
	if err := noEncoding(c); err != nil {
		return err
	}
	signature := c.Get(SignatureHeader)
	text, err := base64.StdEncoding.DecodeString(signature)
	if err != nil || len(text) > maxSignature {
		return edgewise.Errorf(op, edgewise.Invalid, "header %s is not the base64 of a .minisig file of at most %d bytes",
			SignatureHeader, maxSignature)
	}
	confirmed := c.Query("confirmed")
	if confirmed != "" && confirmed != "true" && confirmed != "false" {
		return edgewise.Errorf(op, edgewise.Invalid, "query parameter confirmed is %.40q: want true or false", confirmed)
	}
	u, err := s.deps.System.Receive(s.as(c), who(c), NewUpdate{
		Size: in.length, Body: in, Signature: string(text),
		Confirmed: confirmed == "true",
	})
	if in.err != nil && !in.ended {
		err = in.err // whatever was made of it
	}
	if u.Job != nil {
		target(c, u.Job.Version)
	}
	if err != nil {
		return err
	}
	c.Status(fiber.StatusAccepted)
	return writeJSON(c, u)
}

// installUpdate goes on with an update: POST /api/v1/system/update/install.
func (s *Server) installUpdate(c *fiber.Ctx) error {
	var ask admin.UpdateInstall
	if err := readBody(c, &ask); err != nil {
		return err
	}
	return s.accepted(c)(s.deps.System.Install(ask))
}

// cancelUpdate ends an update that is not installed: DELETE /api/v1/system/update.
func (s *Server) cancelUpdate(c *fiber.Ctx) error { return s.system(c)(s.deps.System.Cancel(s.as(c))) }

// rollbackSystem goes back to the system before: POST /api/v1/system/rollback.
func (s *Server) rollbackSystem(c *fiber.Ctx) error {
	return s.accepted(c)(s.deps.System.Rollback(s.as(c)))
}

// acknowledgeBoot ends the notice of a failed start: DELETE /api/v1/system/failed-boot.
func (s *Server) acknowledgeBoot(c *fiber.Ctx) error { return done(c, s.deps.System.AcknowledgeBoot()) }

// leaveSafeStart ends the safe start: DELETE /api/v1/system/safe-start.
func (s *Server) leaveSafeStart(c *fiber.Ctx) error { return done(c, s.deps.System.LeaveSafeStart()) }

// restart restarts the box: POST /api/v1/system/restart.
func (s *Server) restart(c *fiber.Ctx) error {
	if err := s.deps.System.Restart(s.as(c)); err != nil {
		return err
	}
	return s.accepted(c)(s.deps.System.Update(), nil)
}

// factoryReset erases the box: POST /api/v1/system/factory-reset.
func (s *Server) factoryReset(c *fiber.Ctx) error {
	var ask admin.FactoryReset
	if err := readBody(c, &ask); err != nil {
		return err
	}
	if err := s.deps.System.FactoryReset(s.as(c), ask); err != nil {
		return err
	}
	return s.accepted(c)(s.deps.System.Update(), nil)
}

// bootLog returns the log of a start that failed: GET /api/v1/system/failed-boot/log.
func (s *Server) bootLog(c *fiber.Ctx) error {
	text, err := s.deps.System.BootLog()
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, fiber.MIMETextPlainCharsetUTF8)
	return c.Send(text)
}
