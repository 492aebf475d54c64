package administration

import (
	"context"
	"io"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// Catalog is what the page shows of models beside what the command line needs. All methods are safe for concurrent use.
type Catalog interface {
	// Notes returns what people wrote about a model, or a version; SetNotes replaces it. Errors: NotFound, TooLarge.
	Notes(id edgewise.ModelID) string
	SetNotes(id edgewise.ModelID, text string) error
	// Detail describes a version. Errors: NotFound.
	Detail(ctx context.Context, id edgewise.ModelID) (admin.VersionDetail, error)
	// Configuration describes a version with its configuration, changed as edit says. Nothing is stored. Errors: NotFound,
	// Invalid, Unsupported for an ensemble.
	Configuration(
		ctx context.Context, id edgewise.ModelID, edit admin.ConfigurationEdit,
	) (admin.VersionConfiguration, error)
	// Measure has a ready version measured once more on the devices of the box, which serves from the one that is chosen
	// then. Errors: NotFound, Unavailable, Unsupported, those of its load.
	Measure(ctx context.Context, id edgewise.ModelID) (*admin.Choice, error)
	// Graph returns the structure of a version. Errors: NotFound, Unsupported for one that has none.
	Graph(ctx context.Context, id edgewise.ModelID) (*admin.Graph, error)
	// File opens a file of a version. Errors: NotFound.
	File(id edgewise.ModelID, path string) (body io.ReadCloser, size int64, err error)
	// Compare says what differs between two versions. Errors: NotFound.
	Compare(ctx context.Context, name string, from, to int64) (admin.Comparison, error)
	// Dependants lists the versions of ensembles that run a version, or any of a model's. Errors: NotFound.
	Dependants(id edgewise.ModelID) ([]admin.Dependant, error)
	// DeleteDependants deletes them. Errors: those of Library.DeleteVersion.
	DeleteDependants(ctx context.Context, id edgewise.ModelID) error
	// Deployments returns what served when, latest first; of all models for "".
	Deployments(model string, limit int) ([]admin.Deployment, error)
	// Ensembles lists the ensembles with what was measured of their steps.
	Ensembles() []admin.Ensemble
	// Backup writes one file with everything, BackupName is a name for it.
	Backup(ctx context.Context, w io.Writer, accounts bool) error
	BackupName() string
}

// catalogRoutes are about what the page shows of stored models.
func (h *handlers) catalogRoutes() []httpapi.Route {
	const read, operate = edgewise.Read, edgewise.Operate
	return []httpapi.Route{
		act("PATCH", modelPath, "model.notes", operate, h.changeNotes(showModel(h.model))),
		{Method: "GET", Path: modelPath + "/dependants", Handler: showModel(h.dependants), Rights: read},
		{Method: "GET", Path: modelPath + "/comparison", Handler: showModel(h.comparison), Rights: read},
		{Method: "GET", Path: modelPath + "/deployments", Handler: showModel(h.deployments), Rights: read},
		{Method: "GET", Path: versionPath, Handler: find(h.Catalog.Detail), Rights: read},
		act("PATCH", versionPath, "version.notes", operate, h.changeNotes(find(h.Catalog.Detail))),
		{Method: "GET", Path: versionPath + "/configuration", Handler: showModel(h.configuration), Rights: operate},
		{Method: "POST", Path: versionPath + "/configuration", Handler: showModel(h.editConfiguration), Rights: operate},
		act("POST", versionPath+"/measure", "version.measure", operate, find(h.Catalog.Measure)),
		{Method: "GET", Path: versionPath + "/graph", Handler: find(h.Catalog.Graph), Rights: read},
		{Method: "GET", Path: versionPath + "/file", Handler: h.file, Rights: operate},
		{Method: "GET", Path: "/api/v1/deployments", Handler: show(h.allDeployments), Rights: read},
		{Method: "GET", Path: "/api/v1/ensembles", Handler: get(h.Catalog.Ensembles), Rights: read},
		confirmed(act("GET", "/api/v1/backup", "backup.read", edgewise.Admin, h.backup)),
	}
}

// changeNotes changes the notes and answers with answer: PATCH /api/v1/models/{model}[/versions/{version}].
func (h *handlers) changeNotes(answer httpapi.Handler) httpapi.Handler {
	return func(r *httpapi.Request) error {
		id, err := modelID(r)
		if err != nil {
			return err
		}
		var ask admin.Notes
		if err := r.ReadStrictJSON(&ask); err != nil {
			return err
		}
		if err := h.Catalog.SetNotes(id, ask.Notes); err != nil {
			return err
		}
		return answer(r)
	}
}

// configuration shows the configuration of a version: GET .../configuration.
func (h *handlers) configuration(r *httpapi.Request, id edgewise.ModelID) (admin.VersionConfiguration, error) {
	return h.Catalog.Configuration(r.WorkContext(), id, admin.ConfigurationEdit{})
}

// editConfiguration shows what a configuration would come to, and stores nothing: POST .../configuration.
func (h *handlers) editConfiguration(
	r *httpapi.Request, id edgewise.ModelID,
) (c admin.VersionConfiguration, err error) {
	var edit admin.ConfigurationEdit
	if err := r.ReadStrictJSON(&edit); err != nil {
		return c, err
	}
	return h.Catalog.Configuration(r.WorkContext(), id, edit)
}

// file answers with a file of a version: GET .../file?path=P.
func (h *handlers) file(r *httpapi.Request) error {
	id, err := modelID(r)
	if err != nil {
		return err
	}
	path := strings.Clone(r.Query("path"))
	if err := edgewise.CheckPath(path); err != nil {
		return edgewise.Errorf("administration.file", edgewise.Invalid, "%w", err)
	}
	body, size, err := h.Catalog.File(id, path)
	if err != nil {
		return err
	}
	r.Set(fiber.HeaderContentType, mimeFile)
	setFilename(r, path[strings.LastIndexByte(path, '/')+1:])
	return r.SendStream(body, int(size))
}

// setFilename makes browsers store the answer as a file.
func setFilename(r *httpapi.Request, name string) {
	r.Set(fiber.HeaderContentDisposition, `attachment; filename="`+strings.Map(quotable, name)+`"`)
}

// quotable keeps what may stand in a quoted header value.
func quotable(r rune) rune {
	if r < ' ' || r > '~' || r == '"' || r == '\\' {
		return '_'
	}
	return r
}

// dependants lists what would be deleted with a model: GET /api/v1/models/{model}/dependants.
func (h *handlers) dependants(r *httpapi.Request, id edgewise.ModelID) (list []admin.Dependant, err error) {
	if id.Version, err = queryNumber(r, "version", 0, 1, 1<<62); err != nil {
		return nil, err
	}
	return h.Catalog.Dependants(id)
}

// comparison tells what differs between two versions: GET /api/v1/models/{model}/comparison?from=1&to=2.
func (h *handlers) comparison(r *httpapi.Request, id edgewise.ModelID) (compared admin.Comparison, err error) {
	from, err := queryVersion(r, "from")
	if err != nil {
		return compared, err
	}
	to, err := queryVersion(r, "to")
	if err != nil {
		return compared, err
	}
	return h.Catalog.Compare(r.WorkContext(), id.Name, from, to)
}

// deployments lists which version of a model served when: GET /api/v1/models/{model}/deployments.
func (h *handlers) deployments(r *httpapi.Request, id edgewise.ModelID) ([]admin.Deployment, error) {
	limit, err := queryLimit(r, defaultPage)
	if err != nil {
		return nil, err
	}
	return h.Catalog.Deployments(id.Name, limit)
}

// allDeployments lists which version of which model served when: GET /api/v1/deployments.
func (h *handlers) allDeployments(r *httpapi.Request) ([]admin.Deployment, error) {
	return h.deployments(r, edgewise.ModelID{})
}

// backup answers with one file with everything: GET /api/v1/backup.
func (h *handlers) backup(r *httpapi.Request) error {
	withAccounts := r.Query("accounts") == "true"
	if withAccounts {
		r.Detail = "with accounts"
	}
	r.Set(fiber.HeaderContentType, mimeTar)
	setFilename(r, h.Catalog.BackupName())
	ctx := r.WorkContext()
	r.SendWritten("a backup", func(w io.Writer) error { return h.Catalog.Backup(ctx, w, withAccounts) })
	return nil
}
