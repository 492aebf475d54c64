package httpapi

import (
	"context"
	"encoding/base64"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// The protocol of uploads is tus 1.0.0 (https://tus.io/protocols/resumable-upload) with the extensions creation,
// termination, expiration and checksum.
const (
	tusVersion    = "1.0.0"
	tusExtensions = "creation,termination,expiration,checksum"
	tusChecksums  = "sha256"
	mimeOffset    = "application/offset+octet-stream"

	uploadsPath = "/api/v1/uploads"
	maxMetadata = 8192 // bytes of Upload-Metadata

	statusChecksum = 460 // of the protocol
)

// NewUpload is an upload as its sender describes it.
type NewUpload struct {
	Length                  int64
	Metadata                string // as the protocol sends it
	Filename, Model, SHA256 string
	Notes                   string
	Activate                bool // do not wait for a person after the inspection
}

// UploadBody is what a sender sends. Cut ends a Read that waits; it may be called by anybody at any time.
type UploadBody struct {
	io.Reader
	Cut func()
}

// Uploads takes files in pieces. All methods are safe for concurrent use. An upload of somebody else does not exist.
type Uploads interface {
	// MaxBytes bounds a file.
	MaxBytes() int64
	// Create begins an upload. Errors: Invalid, TooLarge, Busy, Exhausted.
	Create(p *edgewise.Principal, n NewUpload) (admin.Upload, error)
	// Get returns an upload, Metadata what its sender said of it. Errors: NotFound.
	Get(p *edgewise.Principal, id string) (admin.Upload, error)
	Metadata(p *edgewise.Principal, id string) (string, error)
	// List returns the unfinished uploads.
	List(p *edgewise.Principal) []admin.Upload
	// Offset is Get after a sender that still holds the upload was cut off. Errors: NotFound, Busy.
	Offset(ctx context.Context, p *edgewise.Principal, id string) (admin.Upload, error)
	// Write takes bytes from an offset on. checksum, where it is not nil, is their SHA-256. Errors: NotFound, Busy,
	// Conflict, TooLarge, Corrupt, Exhausted, and those of body.
	Write(ctx context.Context, p *edgewise.Principal, id string, offset int64, body UploadBody,
		checksum []byte) (admin.Upload, error)
	// Delete gives an upload up. Errors: NotFound, Busy.
	Delete(ctx context.Context, p *edgewise.Principal, id string) error
}

// Jobs are what goes on after the last byte of an upload. A job of somebody else does not exist.
type Jobs interface {
	// List returns the jobs, latest first; Get one of them. Errors: NotFound.
	List(p *edgewise.Principal) []admin.Job
	Get(p *edgewise.Principal, id string) (admin.Job, error)
	// Activate goes on with a job that waits for a person, or has failed. Errors: NotFound, Conflict, Invalid, Denied.
	Activate(p *edgewise.Principal, id string, a admin.Activate) (admin.Job, error)
	// NeedsConfirmation tells whether Activate gives power away: then a person must have given the password a moment ago.
	NeedsConfirmation(id string) bool
	// Discard cancels a job and throws its files away. Errors: NotFound.
	Discard(p *edgewise.Principal, id string) error
}

// uploadOptions says what the upload server can: OPTIONS /api/v1/uploads.
func (s *Server) uploadOptions(c *fiber.Ctx) error {
	c.Set("Tus-Resumable", tusVersion)
	c.Set("Tus-Version", tusVersion)
	c.Set("Tus-Extension", tusExtensions)
	c.Set("Tus-Checksum-Algorithm", tusChecksums)
	c.Set("Tus-Max-Size", strconv.FormatInt(s.deps.Uploads.MaxBytes(), 10))
	return done(c, nil)
}

// tus refuses senders that speak another version of the protocol.
func tus(c *fiber.Ctx) error {
	c.Set("Tus-Resumable", tusVersion)
	if given := c.Get("Tus-Resumable"); given != tusVersion {
		c.Set("Tus-Version", tusVersion)
		return &special{fiber.StatusPreconditionFailed, edgewise.Errorf("httpapi.tus", edgewise.Invalid,
			"header Tus-Resumable is %.20q: want %s", given, tusVersion)}
	}
	return nil
}

func (s *Server) listUploads(c *fiber.Ctx) error { return writeJSON(c, s.deps.Uploads.List(who(c))) }

// createUpload begins an upload: POST /api/v1/uploads.
func (s *Server) createUpload(c *fiber.Ctx) error {
	if err := tus(c); err != nil {
		return err
	}
	n, err := newUpload(c)
	if err != nil {
		return err
	}
	target(c, n.Filename)
	up, err := s.deps.Uploads.Create(who(c), n)
	if err != nil {
		return err
	}
	detail(c, up.ID)
	c.Set(fiber.HeaderLocation, uploadsPath+"/"+up.ID)
	c.Set("Upload-Expires", up.Expires.Format(time.RFC1123))
	c.Status(fiber.StatusCreated)
	return nil
}

func newUpload(c *fiber.Ctx) (n NewUpload, err error) {
	const op = "httpapi.newUpload"
	n.Length, err = strconv.ParseInt(c.Get("Upload-Length"), 10, 64)
	if err != nil || n.Length < 0 {
		return n, edgewise.Errorf(op, edgewise.Invalid, "header Upload-Length is %.40q: want the bytes of the file",
			c.Get("Upload-Length"))
	}
	n.Metadata = strings.Clone(c.Get("Upload-Metadata"))
	if len(n.Metadata) > maxMetadata {
		return n, &edgewise.Error{
			Op: op, Kind: edgewise.TooLarge, Limit: maxMetadata,
			Err: errorText("header Upload-Metadata has more than " + strconv.Itoa(maxMetadata) + " bytes"),
		}
	}
	activate := ""
	fields := map[string]*string{
		"filename": &n.Filename, "model": &n.Model, "sha256": &n.SHA256, "notes": &n.Notes,
		"activate": &activate,
	}
	for pair := range strings.SplitSeq(n.Metadata, ",") {
		key, encoded, _ := strings.Cut(strings.TrimSpace(pair), " ")
		field, known := fields[key]
		if !known {
			continue // such as filetype, which browsers' clients send
		}
		value, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
		if err != nil {
			return n, edgewise.Errorf(op, edgewise.Invalid, "header Upload-Metadata: the value of %s is not base64", key)
		}
		*field = string(value)
	}
	n.Activate = activate == "true"
	return n, nil
}

// uploadOffset says how much has arrived: HEAD /api/v1/uploads/{id}.
func (s *Server) uploadOffset(c *fiber.Ctx) error {
	if err := tus(c); err != nil {
		return err
	}
	id, err := param(c, "id")
	if err != nil {
		return err
	}
	up, err := s.deps.Uploads.Offset(s.base, who(c), id)
	if err != nil {
		return err
	}
	metadata, err := s.deps.Uploads.Metadata(who(c), id)
	if err != nil {
		return err
	}
	s.progress(c, up)
	c.Set("Upload-Length", strconv.FormatInt(up.Length, 10))
	if metadata != "" {
		c.Set("Upload-Metadata", metadata)
	}
	return nil
}

// progress says where an upload stands.
func (s *Server) progress(c *fiber.Ctx, up admin.Upload) {
	c.Set("Upload-Offset", strconv.FormatInt(up.Offset, 10))
	if up.Offset < up.Length {
		c.Set("Upload-Expires", up.Expires.Format(time.RFC1123))
	}
}

// getUpload describes an upload: GET /api/v1/uploads/{id}.
func (s *Server) getUpload(c *fiber.Ctx) error {
	id, err := param(c, "id")
	if err != nil {
		return err
	}
	up, err := s.deps.Uploads.Get(who(c), id)
	if err != nil {
		return err
	}
	return writeJSON(c, up)
}

// sendUpload takes a piece of an upload: PATCH /api/v1/uploads/{id}. The bytes go to the disk as they arrive.
func (s *Server) sendUpload(c *fiber.Ctx) error {
	const op = "httpapi.sendUpload"
	if err := tus(c); err != nil {
		return err
	}
	in := streamOf(c)
	id, err := param(c, "id")
	if err != nil {
		return err
	}
	if kind := string(c.Request().Header.ContentType()); kind != mimeOffset {
		return &special{fiber.StatusUnsupportedMediaType, edgewise.Errorf(op, edgewise.Invalid, "content type %.80q: want %s",
			kind, mimeOffset)}
	}
	offset, err := strconv.ParseInt(c.Get("Upload-Offset"), 10, 64)
	if err != nil || offset < 0 {
		return edgewise.Errorf(op, edgewise.Invalid, "header Upload-Offset is %.40q: want the bytes that have arrived",
			c.Get("Upload-Offset"))
	}
	checksum, err := uploadChecksum(c.Get("Upload-Checksum"))
	if err != nil {
		return err
	}
	client := connOf(c.Context())
	body := UploadBody{in, func() { _ = client.Conn.SetReadDeadline(time.Now().Add(-time.Second)) }}
	up, err := s.deps.Uploads.Write(s.base, who(c), id, offset, body, checksum)
	if up.ID != "" {
		s.progress(c, up)
	}
	if err != nil && edgewise.KindOf(err) == edgewise.Corrupt {
		return &special{statusChecksum, err}
	}
	return done(c, err)
}

// uploadChecksum reads the header Upload-Checksum; nil when there is none.
func uploadChecksum(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	algorithm, encoded, _ := strings.Cut(text, " ")
	sum, err := base64.StdEncoding.DecodeString(encoded)
	if algorithm != tusChecksums || err != nil || len(sum) != 32 {
		return nil, edgewise.Errorf("httpapi.uploadChecksum", edgewise.Invalid,
			"header Upload-Checksum is %.80q: want %s and the base64 of 32 bytes", text, tusChecksums)
	}
	return sum, nil
}

// cancelUpload gives an upload up: DELETE /api/v1/uploads/{id}.
func (s *Server) cancelUpload(c *fiber.Ctx) error {
	if err := tus(c); err != nil {
		return err
	}
	id, err := param(c, "id")
	if err != nil {
		return err
	}
	target(c, id)
	return done(c, s.deps.Uploads.Delete(s.base, who(c), id))
}

// listJobs lists the jobs of the caller: GET /api/v1/jobs.
func (s *Server) listJobs(c *fiber.Ctx) error { return writeJSON(c, s.deps.Jobs.List(who(c))) }

// getJob describes a job: GET /api/v1/jobs/{id}.
func (s *Server) getJob(c *fiber.Ctx) error {
	id, err := param(c, "id")
	if err != nil {
		return err
	}
	j, err := s.deps.Jobs.Get(who(c), id)
	if err != nil {
		return err
	}
	return writeJSON(c, j)
}

// discardJob cancels a job: DELETE /api/v1/jobs/{id}.
func (s *Server) discardJob(c *fiber.Ctx) error {
	id, err := param(c, "id")
	if err != nil {
		return err
	}
	target(c, id)
	return done(c, s.deps.Jobs.Discard(who(c), id))
}

// activateJob goes on with a job: POST /api/v1/jobs/{id}/activate.
func (s *Server) activateJob(c *fiber.Ctx) error {
	id, err := param(c, "id")
	if err != nil {
		return err
	}
	target(c, id)
	var ask admin.Activate
	if len(c.Body()) > 0 {
		if err := readBody(c, &ask); err != nil {
			return err
		}
	}
	if s.deps.Jobs.NeedsConfirmation(id) && s.deps.Accounts != nil && !s.deps.Open {
		if err := s.deps.Accounts.Confirmed(who(c)); err != nil {
			return err
		}
	}
	j, err := s.deps.Jobs.Activate(who(c), id, ask)
	if err != nil {
		return err
	}
	c.Status(fiber.StatusAccepted)
	return writeJSON(c, j)
}
