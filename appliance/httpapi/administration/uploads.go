package administration

import (
	"context"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
	"github.com/edgewise-ai/edgewise/appliance/uploads"
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

// Jobs are what goes on after the last byte of an upload. A job of somebody else does not exist.
type Jobs interface {
	// List returns the jobs, latest first; Get one of them. Errors: NotFound.
	List(p *edgewise.Principal) []admin.Job
	Get(p *edgewise.Principal, id string) (admin.Job, error)
	// Compare tells what differs from the live version of a model. Errors: NotFound, Conflict.
	Compare(ctx context.Context, p *edgewise.Principal, id, model string) (admin.JobComparison, error)
	// Activate goes on with a job that waits for a person, or has failed. Errors: NotFound, Conflict, Invalid, Denied.
	Activate(p *edgewise.Principal, id string, a admin.Activate) (admin.Job, error)
	// NeedsConfirmation tells whether Activate gives power away: then a person must have given the password a moment ago.
	NeedsConfirmation(id string) bool
	// Discard cancels a job and throws its files away. Errors: NotFound.
	Discard(p *edgewise.Principal, id string) error
}

// uploadRoutes are about uploads in pieces, and the jobs that follow them.
func (h *handlers) uploadRoutes() []httpapi.Route {
	const operate, upload, jobs, job = edgewise.Operate, uploadsPath + "/:id", "/api/v1/jobs", "/api/v1/jobs/:id"
	return []httpapi.Route{
		{Method: "OPTIONS", Path: uploadsPath, Handler: run(h.uploadOptions), Public: true},
		{Method: "GET", Path: uploadsPath, Handler: list(h.Uploads.List), Rights: operate},
		act("POST", uploadsPath, "upload.create", operate, tus(h.createUpload)),
		{Method: "HEAD", Path: upload, Handler: tus(h.uploadOffset), Rights: operate},
		{Method: "GET", Path: upload, Handler: show(h.upload), Rights: operate},
		{
			Method: "PATCH", Path: upload, Handler: tus(run(h.sendUpload)), Rights: operate, Body: httpapi.UploadBody,
			Stream: true,
		},
		act("DELETE", upload, "upload.cancel", operate, tus(run(h.cancelUpload))),
		{Method: "GET", Path: jobs, Handler: list(h.Jobs.List), Rights: operate},
		{Method: "GET", Path: job, Handler: show(h.job), Rights: operate},
		{Method: "GET", Path: job + "/comparison", Handler: show(h.compareJob), Rights: operate},
		act("DELETE", job, "job.discard", operate, run(h.discardJob)),
		act("POST", job+"/activate", "job.activate", operate, show(h.activateJob)),
	}
}

// tus refuses senders that speak another version of the protocol.
func tus(next httpapi.Handler) httpapi.Handler {
	return func(r *httpapi.Request) error {
		r.Set("Tus-Resumable", tusVersion)
		if given := r.Get("Tus-Resumable"); given != tusVersion {
			r.Set("Tus-Version", tusVersion)
			return httpapi.WithStatus(fiber.StatusPreconditionFailed, edgewise.Errorf("administration.tus",
				edgewise.Invalid, "header Tus-Resumable is %.20q: want %s", given, tusVersion))
		}
		return next(r)
	}
}

// uploadOptions describes the upload server: OPTIONS /api/v1/uploads.
func (h *handlers) uploadOptions(r *httpapi.Request) error {
	r.Set("Tus-Resumable", tusVersion)
	r.Set("Tus-Version", tusVersion)
	r.Set("Tus-Extension", tusExtensions)
	r.Set("Tus-Checksum-Algorithm", tusChecksums)
	r.Set("Tus-Max-Size", strconv.FormatInt(h.Uploads.MaxBytes(), 10))
	return nil
}

// upload describes an upload: GET /api/v1/uploads/{id}.
func (h *handlers) upload(r *httpapi.Request) (admin.Upload, error) {
	return h.Uploads.Get(r.Caller, r.Param("id"))
}

// createUpload begins an upload: POST /api/v1/uploads.
func (h *handlers) createUpload(r *httpapi.Request) error {
	n, err := newUpload(r)
	if err != nil {
		return err
	}
	r.Target = n.Filename
	n.Owner = r.Caller.Actor()
	up, err := h.Uploads.Create(n)
	if err != nil {
		return err
	}
	r.Detail = up.ID
	r.Set(fiber.HeaderLocation, uploadsPath+"/"+up.ID)
	r.Set("Upload-Expires", up.Expires.Format(time.RFC1123))
	r.Status(fiber.StatusCreated)
	return nil
}

func newUpload(r *httpapi.Request) (n uploads.File, err error) {
	const op = "administration.newUpload"
	n.Length, err = strconv.ParseInt(r.Get("Upload-Length"), 10, 64)
	if err != nil || n.Length < 0 {
		return n, edgewise.Errorf(op, edgewise.Invalid, "header Upload-Length is %.40q: want the bytes of the file",
			r.Get("Upload-Length"))
	}
	n.Metadata = strings.Clone(r.Get("Upload-Metadata"))
	if len(n.Metadata) > maxMetadata {
		return n, &edgewise.Error{
			Op: op, Kind: edgewise.TooLarge, Limit: maxMetadata,
			Err: errors.New("header Upload-Metadata has more than " + strconv.Itoa(maxMetadata) + " bytes"),
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
func (h *handlers) uploadOffset(r *httpapi.Request) error {
	id := r.Param("id")
	up, err := h.Uploads.Offset(r.WorkContext(), r.Caller, id)
	if err != nil {
		return err
	}
	metadata, err := h.Uploads.Metadata(r.Caller, id)
	if err != nil {
		return err
	}
	progress(r, up)
	r.Set("Upload-Length", strconv.FormatInt(up.Length, 10))
	if metadata != "" {
		r.Set("Upload-Metadata", metadata)
	}
	return nil
}

// progress says where an upload stands.
func progress(r *httpapi.Request, up admin.Upload) {
	r.Set("Upload-Offset", strconv.FormatInt(up.Offset, 10))
	if up.Offset < up.Length {
		r.Set("Upload-Expires", up.Expires.Format(time.RFC1123))
	}
}

// sendUpload takes a piece of an upload: PATCH /api/v1/uploads/{id}. The bytes go to the disk as they arrive.
func (h *handlers) sendUpload(r *httpapi.Request) error {
	const op = "administration.sendUpload"
	if kind := string(r.Request().Header.ContentType()); kind != mimeOffset {
		return httpapi.WithStatus(fiber.StatusUnsupportedMediaType,
			edgewise.Errorf(op, edgewise.Invalid, "content type %.80q: want %s", kind, mimeOffset))
	}
	offset, err := strconv.ParseInt(r.Get("Upload-Offset"), 10, 64)
	if err != nil || offset < 0 {
		return edgewise.Errorf(op, edgewise.Invalid, "header Upload-Offset is %.40q: want the bytes that have arrived",
			r.Get("Upload-Offset"))
	}
	checksum, err := uploadChecksum(r.Get("Upload-Checksum"))
	if err != nil {
		return err
	}
	body := uploads.Body{Reader: r.Stream, Cut: r.Client().CutBody}
	up, err := h.Uploads.Write(r.WorkContext(), r.Caller, r.Param("id"), offset, body, checksum)
	if up.ID != "" {
		progress(r, up)
	}
	if err != nil && edgewise.KindOf(err) == edgewise.Corrupt {
		return httpapi.WithStatus(statusChecksum, err)
	}
	return err
}

// uploadChecksum reads the header Upload-Checksum; nil when there is none.
func uploadChecksum(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	algorithm, encoded, _ := strings.Cut(text, " ")
	sum, err := base64.StdEncoding.DecodeString(encoded)
	if algorithm != tusChecksums || err != nil || len(sum) != 32 {
		return nil, edgewise.Errorf("administration.uploadChecksum", edgewise.Invalid,
			"header Upload-Checksum is %.80q: want %s and the base64 of 32 bytes", text, tusChecksums)
	}
	return sum, nil
}

// cancelUpload deletes an upload: DELETE /api/v1/uploads/{id}.
func (h *handlers) cancelUpload(r *httpapi.Request) error {
	id := r.Param("id")
	r.Target = id
	if u, err := h.Uploads.Get(r.Caller, id); err == nil {
		r.Target = u.Filename
	}
	return h.Uploads.Delete(r.WorkContext(), r.Caller, id)
}

// job describes a job: GET /api/v1/jobs/{id}.
func (h *handlers) job(r *httpapi.Request) (admin.Job, error) {
	return h.Jobs.Get(r.Caller, r.Param("id"))
}

// discardJob cancels a job: DELETE /api/v1/jobs/{id}.
func (h *handlers) discardJob(r *httpapi.Request) error {
	id := r.Param("id")
	h.noteJob(r, id, "")
	return h.Jobs.Discard(r.Caller, id)
}

// noteJob names the models of a job in the audit log, and the file that they came in. name replaces that of one model.
func (h *handlers) noteJob(r *httpapi.Request, id, name string) {
	r.Target = id
	j, err := h.Jobs.Get(r.Caller, id)
	if err != nil {
		return
	}
	r.Target, r.Detail = j.Filename, "job "+id
	if j.Understood == nil || len(j.Understood.Models) == 0 {
		return
	}
	names := []string{name}
	if name == "" {
		names = names[:0]
		for _, m := range j.Understood.Models {
			names = append(names, m.Name)
		}
	}
	r.Target, r.Detail = strings.Join(names, ", "), r.Target+", "+r.Detail
}

// compareJob tells what differs from the live version of a model: GET /api/v1/jobs/{id}/comparison?model=NAME.
func (h *handlers) compareJob(r *httpapi.Request) (admin.JobComparison, error) {
	return h.Jobs.Compare(r.WorkContext(), r.Caller, r.Param("id"), strings.Clone(r.Query("model")))
}

// activateJob continues a job: POST /api/v1/jobs/{id}/activate.
func (h *handlers) activateJob(r *httpapi.Request) (j admin.Job, err error) {
	id := r.Param("id")
	r.Target = id
	var ask admin.Activate
	if len(r.Body()) > 0 {
		if err := r.ReadStrictJSON(&ask); err != nil {
			return j, err
		}
	}
	h.noteJob(r, id, ask.Model)
	if h.Jobs.NeedsConfirmation(id) && h.Accounts != nil && !h.Open {
		if err := h.Accounts.Confirmed(r.Caller); err != nil {
			return j, err
		}
	}
	r.Status(fiber.StatusAccepted)
	return h.Jobs.Activate(r.Caller, id, ask)
}
