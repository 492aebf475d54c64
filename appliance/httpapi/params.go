package httpapi

import (
	"math"
	"net/url"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
)

// rawParam returns a segment of the path as it came; "" when the route has none of that name.
func rawParam(c *fiber.Ctx, key string) string { return string(stateOf(c.Context()).value(key)) }

// param returns a decoded segment of the path that outlives the request.
func param(c *fiber.Ctx, key string) (string, error) { return stateOf(c.Context()).param(key) }

func (m *match) param(key string) (string, error) {
	raw := string(m.value(key))
	if !strings.Contains(raw, "%") {
		return raw, nil
	}
	text, err := url.PathUnescape(raw)
	if err != nil {
		return "", edgewise.Errorf("httpapi.param", edgewise.Invalid, "path segment %.200q: bad percent-encoding", raw)
	}
	return text, nil
}

// inferenceID returns the model that a path of the inference protocol names.
func (s *Server) inferenceID(c *fiber.Ctx) (edgewise.ModelID, error) {
	return s.inferenceOf(&stateOf(c.Context()).match)
}

// inferenceOf is inferenceID of a path. With an error comes the model without the version, as far as it is known.
func (s *Server) inferenceOf(m *match) (edgewise.ModelID, error) {
	name, err := m.param("model")
	if err != nil {
		return edgewise.ModelID{}, err
	}
	version, err := m.param("version")
	if err != nil {
		return edgewise.ModelID{Name: name}, err
	}
	return s.identify(name, version)
}

// identify returns the model of a name and a version, "" for none in particular. A name that no model can have is as
// unknown as any other; a version that is neither a number nor a label makes the path one that does not exist.
func (s *Server) identify(name, version string) (edgewise.ModelID, error) {
	if edgewise.CheckName(name) != nil {
		return edgewise.ModelID{}, edgewise.Errorf("httpapi.identify", edgewise.NotFound,
			"Request for unknown model: '%.200s' is not found", name)
	}
	id := edgewise.ModelID{Name: name}
	if version == "" {
		return id, nil
	}
	if strings.Trim(version, "0123456789") != "" {
		return s.labelled(name, version)
	}
	var err error
	id.Version, err = strconv.ParseInt(version, 10, 64)
	if err != nil || id.Version == 0 {
		return id, edgewise.Errorf("httpapi.identify", edgewise.NotFound, "Request for unknown model: '%s' version %.40s "+
			"is not found", name, version)
	}
	return id, nil
}

// adminID returns the model, and the version if the path has one, of an administration path. Errors: Invalid, naming
// the rule that is broken.
func adminID(c *fiber.Ctx) (edgewise.ModelID, error) {
	const op = "httpapi.adminID"
	name, err := param(c, "model")
	if err != nil {
		return edgewise.ModelID{}, err
	}
	if err := edgewise.CheckName(name); err != nil {
		return edgewise.ModelID{}, edgewise.Errorf(op, edgewise.Invalid, "%w", err)
	}
	id := edgewise.ModelID{Name: name}
	if version := rawParam(c, "version"); version != "" {
		id.Version, err = parseVersion(version)
	}
	return id, err
}

func parseVersion(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 || text[0] == '+' {
		return 0, edgewise.Errorf("httpapi.parseVersion", edgewise.Invalid, "version %.40q: want a number from 1 to %d", text,
			int64(math.MaxInt64))
	}
	return n, nil
}

// adminLabel returns the label of an administration path. Errors: Invalid, naming the rule that is broken.
func adminLabel(c *fiber.Ctx) (string, error) {
	label, err := param(c, "label")
	if err != nil {
		return "", err
	}
	return label, checkLabel(label)
}

func checkLabel(label string) error {
	if err := edgewise.CheckLabel(label); err != nil {
		return edgewise.Errorf("httpapi.checkLabel", edgewise.Invalid, "%w", err)
	}
	return nil
}
