package administration

import (
	"context"
	"mime"
	"net/url"
	"strconv"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

const (
	mimeFile = "application/octet-stream" // one file
	mimeTar  = "application/x-tar"

	uploadOrigin = "upload"
)

// push stores the body as a new version: POST /api/v1/models/{name}/versions. The body goes to the store as it
// arrives; the version exists only if all of it arrived and its digest is the announced one.
func (h *handlers) push(r *httpapi.Request) error {
	in := r.Stream
	up, promote, err := h.newPush(r, in)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.WorkContext())
	defer cancel()
	pushed, err := h.Models.Push(ctx, up, promote)
	if failed := in.Failure(); failed != nil {
		err = failed // whatever the store made of it
	}
	if err != nil {
		return err
	}
	r.Set(fiber.HeaderLocation, "/api/v1/models/"+pushed.ID.Name+"/versions/"+strconv.FormatInt(pushed.ID.Version, 10))
	return h.created(r, pushed)
}

// created answers with a version that was stored.
func (h *handlers) created(r *httpapi.Request, pushed *admin.Pushed) error {
	v := admin.NewVersion(pushed.Version, h.Statuses())
	v.SignatureChanges, v.Staged = pushed.SignatureChanges, pushed.Staged
	r.Status(fiber.StatusCreated)
	return r.WriteJSON(v)
}

// newPush describes the upload that a request's path, query and headers ask for.
func (h *handlers) newPush(r *httpapi.Request, in *httpapi.Stream) (up edgewise.Upload, promote bool, err error) {
	id, err := modelID(r)
	if err != nil {
		return up, false, err
	}
	up = edgewise.Upload{Model: id.Name, Origin: uploadOrigin, Size: -1}
	if err := r.CheckIdentity(); err != nil {
		return up, false, err
	}
	query, err := readUploadQuery(string(r.Request().URI().QueryString()), h.Formats)
	if err != nil {
		return up, false, err
	}
	up.Version, up.Base = query.version, query.from
	body, err := newChecked(in, string(r.Request().Header.Peek("Content-Digest")))
	if err != nil {
		return up, false, err
	}
	switch kind, _, _ := mime.ParseMediaType(string(r.Request().Header.ContentType())); kind {
	case mimeFile:
		if in.Length() >= 0 {
			up.Size = in.Length()
		}
		if query.size >= 0 && query.size != up.Size {
			return up, false, edgewise.Errorf("administration.push", edgewise.Invalid,
				"query parameter size is %d, the body has %d bytes (-1: not said)", query.size, up.Size)
		}
		up.Next = single(query.file, up.Size, body)
	case mimeTar:
		if query.named {
			return up, false, edgewise.Errorf("administration.push", edgewise.Invalid,
				"query parameter file goes with %s only: an archive names its files", mimeFile)
		}
		up.Size = query.size
		up.Next = newArchive(body, h.Config()).next
	default:
		return up, false, httpapi.WithStatus(fiber.StatusUnsupportedMediaType, edgewise.Errorf("administration.push",
			edgewise.Invalid, "content type %.100q: want %s or %s", kind, mimeFile, mimeTar))
	}
	if up.Base != 0 {
		up.Size = -1 // with files that do not come
		up.Origin = "version " + strconv.FormatInt(up.Base, 10)
	}
	return up, query.promote, nil
}

type uploadQuery struct {
	version int64  // 0: the next free one
	from    int64  // the version whose files complete the body's; 0: none
	promote bool   // whether live moves to it
	file    string // the path of the one file
	named   bool   // whether the client gave it
	size    int64  // bytes of all files together; -1: not given
}

func readUploadQuery(text string, formats edgewise.Formats) (q uploadQuery, err error) {
	const op = "administration.readUploadQuery"
	q = uploadQuery{promote: true, size: -1}
	if len(formats) > 0 {
		q.file = formats[0].File
	}
	values, err := url.ParseQuery(text)
	if err != nil {
		return q, edgewise.Errorf(op, edgewise.Invalid, "query string %.200q: %w", text, err)
	}
	for key, list := range values {
		if len(list) > 1 {
			return q, edgewise.Errorf(op, edgewise.Invalid, "query parameter %.40q is given %d times", key, len(list))
		}
		switch value := list[0]; key {
		case "version":
			q.version, err = parseVersion(value)
		case "from":
			q.from, err = parseVersion(value)
		case "promote":
			if value != "true" && value != "false" {
				err = edgewise.Errorf(op, edgewise.Invalid, "query parameter promote is %.40q: want true or false", value)
			}
			q.promote = value == "true"
		case "file":
			q.file, q.named = value, true
			if bad := edgewise.CheckPath(value); bad != nil {
				err = edgewise.Errorf(op, edgewise.Invalid, "query parameter file: %w", bad)
			}
		case "size":
			if q.size, err = strconv.ParseInt(value, 10, 64); err != nil || q.size < 0 {
				err = edgewise.Errorf(op, edgewise.Invalid, "query parameter size is %.40q: want the bytes of all files together",
					value)
			}
		default:
			err = edgewise.Errorf(op, edgewise.Invalid,
				"unknown query parameter %.40q: want version, from, promote, file or size", key)
		}
		if err != nil {
			return q, err
		}
	}
	return q, nil
}
