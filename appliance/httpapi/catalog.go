package httpapi

import (
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// Catalog is what the page shows of models beside what the command line needs. All methods are safe for concurrent use.
type Catalog interface {
	// Notes returns what people wrote about a model, or a version; SetNotes replaces it. Errors: NotFound, TooLarge.
	Notes(id edgewise.ModelID) string
	SetNotes(id edgewise.ModelID, text string) error
	// Detail describes a version. Errors: NotFound.
	Detail(ctx context.Context, id edgewise.ModelID) (admin.VersionDetail, error)
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

// noted adds what people wrote about a model and its versions.
func (s *Server) noted(m admin.Model) admin.Model {
	if s.deps.Catalog == nil {
		return m
	}
	m.Notes = s.deps.Catalog.Notes(edgewise.ModelID{Name: m.Name})
	for i := range m.Versions {
		m.Versions[i].Notes = s.deps.Catalog.Notes(edgewise.ModelID{Name: m.Name, Version: m.Versions[i].Version})
	}
	return m
}

// changeNotes changes the notes: PATCH /api/v1/models/{model}[/versions/{version}].
func (s *Server) changeNotes(c *fiber.Ctx) error {
	id, err := adminID(c)
	if err != nil {
		return err
	}
	var ask admin.Notes
	if err := readBody(c, &ask); err != nil {
		return err
	}
	if err := s.deps.Catalog.SetNotes(id, ask.Notes); err != nil {
		return err
	}
	if id.Version == 0 {
		return s.showModel(c)
	}
	return s.versionDetail(c)
}

// versionDetail describes a version: GET /api/v1/models/{model}/versions/{version}.
func (s *Server) versionDetail(c *fiber.Ctx) error {
	id, err := adminID(c)
	if err != nil {
		return err
	}
	d, err := s.deps.Catalog.Detail(s.as(c), id)
	if err != nil {
		return err
	}
	return writeJSON(c, d)
}

// graph returns the structure of a version: GET .../graph.
func (s *Server) graph(c *fiber.Ctx) error {
	id, err := adminID(c)
	if err != nil {
		return err
	}
	g, err := s.deps.Catalog.Graph(s.as(c), id)
	if err != nil {
		return err
	}
	return writeJSON(c, g)
}

// file hands out a file of a version: GET .../file?path=P.
func (s *Server) file(c *fiber.Ctx) error {
	id, err := adminID(c)
	if err != nil {
		return err
	}
	path := strings.Clone(c.Query("path"))
	if err := edgewise.CheckPath(path); err != nil {
		return edgewise.Errorf("httpapi.file", edgewise.Invalid, "%w", err)
	}
	body, size, err := s.deps.Catalog.File(id, path)
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, mimeFile)
	c.Set(fiber.HeaderContentDisposition, `attachment; filename="`+strings.Map(quotable,
		path[strings.LastIndexByte(path, '/')+1:])+`"`)
	return c.SendStream(body, int(size))
}

// quotable keeps what may stand in a quoted header value.
func quotable(r rune) rune {
	if r < ' ' || r > '~' || r == '"' || r == '\\' {
		return '_'
	}
	return r
}

// dependants lists what would go with a model: GET /api/v1/models/{model}/dependants.
func (s *Server) dependants(c *fiber.Ctx) error {
	id, err := adminID(c)
	if err != nil {
		return err
	}
	if id.Version, err = queryNumber(c, "version", 0, 1, 1<<62); err != nil {
		return err
	}
	list, err := s.deps.Catalog.Dependants(id)
	if err != nil {
		return err
	}
	return writeJSON(c, list)
}

// remove deletes a version or a model, with ?dependants=true what depends on it before.
func (s *Server) remove(c *fiber.Ctx, id edgewise.ModelID, remove func(context.Context, edgewise.ModelID) error) error {
	ctx := s.as(c)
	if s.deps.Catalog != nil && c.Query("dependants") == "true" {
		detail(c, "with what depends on it")
		if err := s.deps.Catalog.DeleteDependants(ctx, id); err != nil {
			return err
		}
	}
	if id.Version != 0 {
		detail(c, "version "+strconv.FormatInt(id.Version, 10))
	}
	return done(c, remove(ctx, id))
}

// comparison says what differs between two versions: GET /api/v1/models/{model}/comparison?from=1&to=2.
func (s *Server) comparison(c *fiber.Ctx) error {
	id, err := adminID(c)
	if err != nil {
		return err
	}
	from, err := queryVersion(c, "from")
	if err != nil {
		return err
	}
	to, err := queryVersion(c, "to")
	if err != nil {
		return err
	}
	compared, err := s.deps.Catalog.Compare(s.as(c), id.Name, from, to)
	if err != nil {
		return err
	}
	return writeJSON(c, compared)
}

// queryVersion returns the version in a query parameter. Errors: Invalid, naming the parameter.
func queryVersion(c *fiber.Ctx, name string) (int64, error) {
	n, err := parseVersion(c.Query(name))
	if err != nil {
		return 0, edgewise.Errorf("httpapi.queryVersion", edgewise.Invalid, "query parameter %s: %w", name, err)
	}
	return n, nil
}

// modelDeployments returns what served when: GET /api/v1[/models/{model}]/deployments.
func (s *Server) modelDeployments(c *fiber.Ctx) error {
	name := ""
	if rawParam(c, "model") != "" {
		id, err := adminID(c)
		if err != nil {
			return err
		}
		name = id.Name
	}
	limit, err := queryNumber(c, "limit", defaultPage, 1, maxPage)
	if err != nil {
		return err
	}
	list, err := s.deps.Catalog.Deployments(name, int(limit))
	if err != nil {
		return err
	}
	return writeJSON(c, list)
}

// backup hands out one file with everything: GET /api/v1/backup.
func (s *Server) backup(c *fiber.Ctx) error {
	withAccounts := c.Query("accounts") == "true"
	if withAccounts {
		detail(c, "with accounts")
	}
	read, write := io.Pipe()
	go func() {
		err := s.deps.Catalog.Backup(s.base, write, withAccounts)
		if err != nil {
			s.deps.Log.Error("a backup broke off", "error", err)
		}
		_ = write.CloseWithError(err)
	}()
	c.Set(fiber.HeaderContentType, mimeTar)
	c.Set(fiber.HeaderContentDisposition, `attachment; filename="`+strings.Map(quotable, s.deps.Catalog.BackupName())+`"`)
	c.Context().SetBodyStream(read, -1)
	return nil
}
