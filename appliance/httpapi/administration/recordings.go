package administration

import (
	"archive/tar"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// Recordings are the recorded requests of models. All methods are safe for concurrent use.
type Recordings interface {
	// List returns the recordings of all models that have settings or recorded requests.
	List() []admin.Recording
	// Get returns that of one model. Errors: NotFound.
	Get(name string) (admin.Recording, error)
	// Set changes which requests are recorded. Errors: NotFound, Invalid, Exhausted, Internal.
	Set(name string, s admin.RecordingSettings) (admin.Recording, error)
	// Delete ends a recording and deletes all of it; there may be none. Errors: Exhausted, Internal.
	Delete(name string) error
	// Requests lists recorded requests with numbers below before, 0 for any, latest first.
	Requests(name string, before uint64, limit int) []admin.RecordedRequest
	// Read returns a recorded request in the form of docs/formats/example.md, and Remove deletes it. Errors: NotFound,
	// Internal; of Read also Corrupt.
	Read(name string, number uint64) ([]byte, error)
	Remove(name string, number uint64) error
}

// recordingRoutes are about recorded requests, which may hold what clients have sent: they have a right of their own.
func (h *handlers) recordingRoutes() []httpapi.Route {
	const record, recording, requests = edgewise.Recordings, modelPath + "/recording", modelPath + "/recording/requests"
	return []httpapi.Route{
		{Method: "GET", Path: "/api/v1/recordings", Handler: get(h.Recordings.List), Rights: record},
		{Method: "GET", Path: recording, Handler: showModel(h.recording), Rights: record},
		act("PUT", recording, "recording.change", record, showModel(h.changeRecording)),
		act("DELETE", recording, "recording.delete", record, runModel(h.deleteRecording)),
		{Method: "GET", Path: requests, Handler: showModel(h.recordedRequests), Rights: record},
		act("GET", requests+"/:number", "recording.read", record, h.recordedRequest),
		act("DELETE", requests+"/:number", "recording.remove", record, runModel(h.removeRecorded)),
		act("GET", recording+"/archive", "recording.read", record, h.recordingArchive),
	}
}

// recording describes the recording of a model: GET .../recording.
func (h *handlers) recording(_ *httpapi.Request, id edgewise.ModelID) (admin.Recording, error) {
	return h.Recordings.Get(id.Name)
}

// changeRecording says which requests to a model are recorded: PUT .../recording.
func (h *handlers) changeRecording(r *httpapi.Request, id edgewise.ModelID) (found admin.Recording, err error) {
	var ask admin.RecordingSettings
	if err := r.ReadStrictJSON(&ask); err != nil {
		return found, err
	}
	r.Detail = fmt.Sprintf("enabled %v, share %v, %d bytes, %d seconds, %d masks", ask.Enabled, ask.Share, ask.QuotaBytes,
		ask.RetentionSeconds, len(ask.Masks))
	return h.Recordings.Set(id.Name, ask)
}

// deleteRecording ends a recording and deletes it: DELETE .../recording.
func (h *handlers) deleteRecording(_ *httpapi.Request, id edgewise.ModelID) error {
	return h.Recordings.Delete(id.Name)
}

// recordedRequests lists recorded requests: GET .../recording/requests.
func (h *handlers) recordedRequests(r *httpapi.Request, id edgewise.ModelID) ([]admin.RecordedRequest, error) {
	before, err := queryNumber(r, "before", 0, 1, 1<<62)
	if err != nil {
		return nil, err
	}
	limit, err := queryLimit(r, defaultPage)
	if err != nil {
		return nil, err
	}
	if _, err := h.Recordings.Get(id.Name); err != nil {
		return nil, err
	}
	return h.Recordings.Requests(id.Name, uint64(before), limit), nil
}

// recordedNumber returns the number of a recorded request in the path.
func recordedNumber(r *httpapi.Request) (uint64, error) {
	number, err := strconv.ParseUint(r.Param("number"), 10, 62)
	if err != nil || number == 0 {
		return 0, edgewise.Errorf("administration.recordedNumber", edgewise.Invalid, "request %.40q: want its number",
			r.Param("number"))
	}
	r.Detail = "request " + strconv.FormatUint(number, 10)
	return number, nil
}

// recordedRequest answers with a recorded request: GET .../recording/requests/{number}.
func (h *handlers) recordedRequest(r *httpapi.Request) error {
	id, err := modelID(r)
	if err != nil {
		return err
	}
	number, err := recordedNumber(r)
	if err != nil {
		return err
	}
	data, err := h.Recordings.Read(id.Name, number)
	if err != nil {
		return err
	}
	r.Set(fiber.HeaderContentType, mimeFile)
	setFilename(r, recordedName(id.Name, number))
	return r.Send(data)
}

func recordedName(model string, number uint64) string {
	return fmt.Sprintf("%s-%d.example", model, number)
}

// removeRecorded deletes a recorded request: DELETE .../recording/requests/{number}.
func (h *handlers) removeRecorded(r *httpapi.Request, id edgewise.ModelID) error {
	number, err := recordedNumber(r)
	if err != nil {
		return err
	}
	return h.Recordings.Remove(id.Name, number)
}

// recordingArchive answers with the latest recorded requests, one file each, oldest first: GET .../recording/archive.
func (h *handlers) recordingArchive(r *httpapi.Request) error {
	id, err := modelID(r)
	if err != nil {
		return err
	}
	if _, err := h.Recordings.Get(id.Name); err != nil {
		return err
	}
	limit, err := queryNumber(r, "limit", defaultPage, 1, maxArchive)
	if err != nil {
		return err
	}
	r.Set(fiber.HeaderContentType, mimeTar)
	setFilename(r, id.Name+"-recording.tar")
	caller := r.Caller
	r.SendWritten("an archive of recorded requests of model "+id.Name, func(w io.Writer) error {
		return h.writeRecording(w, id.Name, int(limit), caller)
	})
	return nil
}

// maxArchive bounds the requests of one archive.
const maxArchive = 50_000

// writeRecording writes an archive for a caller. Requests that are damaged, or deleted while it is written,
// are left out.
func (h *handlers) writeRecording(w io.Writer, model string, limit int, caller *edgewise.Principal) error {
	archive := tar.NewWriter(w)
	for _, e := range slices.Backward(h.Recordings.Requests(model, 0, limit)) {
		if err := caller.Revoked(); err != nil {
			return err
		}
		if err := h.writeRecorded(archive, model, e.Number, e.Recorded); err != nil {
			return err
		}
	}
	return archive.Close()
}

func (h *handlers) writeRecorded(archive *tar.Writer, model string, number uint64, recorded time.Time) error {
	data, err := h.Recordings.Read(model, number)
	if err != nil {
		switch edgewise.KindOf(err) {
		case edgewise.NotFound:
			return nil
		case edgewise.Corrupt:
			h.Log().Warn("an archive lacks a recorded request", "error", err)
			return nil
		}
		return err
	}
	err = archive.WriteHeader(&tar.Header{
		Name: recordedName(model, number), Mode: 0o600, Size: int64(len(data)), ModTime: recorded,
	})
	if err != nil {
		return err
	}
	_, err = archive.Write(data)
	return err
}
