package compatible

import (
	"strconv"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/api/torchserve"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
	"github.com/edgewise-ai/edgewise/pattern"
)

// torchserveRoutes are those of TorchServe's inference interface. "curl -T" sends a file by PUT. Its management interface
// is on a port of its own there; GET /models is an address of the page here.
func (h *Handlers) torchserveRoutes() []httpapi.Route {
	all := []httpapi.Route{{Method: "GET", Path: "/ping", Handler: h.ping, Public: true, API: "health"}}
	for _, path := range []string{"/predictions/:model", "/predictions/:model/:version"} {
		for _, method := range []string{"POST", "PUT"} {
			route := h.runs(method, path, h.predictions)
			route.Fault = func(status int, body kserve.ErrorBody) any { return torchserve.NewFault(status, body) }
			all = append(all, route)
		}
	}
	return all
}

// ping tells the health of the server: GET /ping.
func (h *Handlers) ping(r *httpapi.Request) error {
	health := torchserve.Health{Status: "Healthy"}
	if !h.Engine.Ready() {
		health.Status = "Unhealthy"
		r.Status(fiber.StatusInternalServerError)
	}
	return r.WriteJSON(health)
}

// predictions answers POST /predictions/{name}[/{version}].
func (h *Handlers) predictions(r *httpapi.Request) error {
	id, v, body, release, err := h.body(r, dotted)
	if err != nil {
		return notFound(r, err)
	}
	defer release()
	req, err := torchserve.Decode(h.decoder, id, v.Model, string(r.Request().Header.ContentType()), body)
	if err != nil {
		return err
	}
	defer req.Release()
	err = h.Inference.Ask(r, &req.Request, func(resp *edgewise.Response) error {
		r.Set(fiber.HeaderXContentTypeOptions, "nosniff")
		return h.write(r, req.Size(resp), func(dst []byte) ([]byte, string, error) {
			return req.Append(dst, resp, h.labels(resp.Model))
		})
	})
	return notFound(r, err)
}

// notFound says in TorchServe's words that there is no such model or version; any other error stays as it is.
func notFound(r *httpapi.Request, err error) error {
	if err == nil || edgewise.KindOf(err) != edgewise.NotFound {
		return err
	}
	text := edgewise.Errorf("compatible.notFound", edgewise.NotFound, "Model not found: %.200s", r.Param("model"))
	if version := r.Param("version"); version != "" {
		text = edgewise.Errorf("compatible.notFound", edgewise.NotFound, "Model version: %.200s does not exist for model: %.200s",
			version, r.Param("model"))
	}
	return text
}

// versionWithPoint is a version as TorchServe's archives have it.
var versionWithPoint = pattern.New(`^([0-9]{1,18})(\.0+)+$`)

// dotted returns the number of a version such as "2.0", 0 for any other text.
func dotted(version string) int64 {
	found := versionWithPoint.FindStringSubmatch(version)
	if found == nil {
		return 0
	}
	n, _ := strconv.ParseInt(found[1], 10, 64) // 18 digits fit
	return n
}
