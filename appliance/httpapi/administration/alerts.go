package administration

import (
	"fmt"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// alertRoutes are about alerts: those who operate the appliance see them, and administrators choose whom they tell.
func (h *handlers) alertRoutes() []httpapi.Route {
	const path = "/api/v1/alerts"
	return []httpapi.Route{
		{Method: "GET", Path: path, Handler: get(h.Alerts.Get), Rights: edgewise.Operate},
		act("PUT", path, "alerts.change", edgewise.Admin, change(h.changeAlerts)),
		act("GET", "/api/v1/support-bundle", "system.support_bundle", edgewise.Admin, h.bundle),
		act("POST", path+"/test", "alerts.test", edgewise.Admin, show(h.testAlerts)),
	}
}

// changeAlerts changes rules and targets: PUT /api/v1/alerts. The audit log does not hold its secrets.
func (h *handlers) changeAlerts(r *httpapi.Request, ask admin.AlertsChange) (admin.Alerts, error) {
	r.Detail = fmt.Sprintf("%d rules", len(ask.Rules))
	if ask.WebhookURL != nil {
		r.Detail += ", another webhook"
	}
	return h.Alerts.Set(ask)
}

// testAlerts sends a message to each target: POST /api/v1/alerts/test.
func (h *handlers) testAlerts(r *httpapi.Request) ([]admin.AlertTest, error) {
	return h.Alerts.Test(r.WorkContext()), nil
}
