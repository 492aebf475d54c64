package registry

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

const (
	// DeploymentsBucket is the bucket of the history. docs/formats/box.md gives the form of its documents.
	DeploymentsBucket = "deployments"
	// maxDeployments bounds the history; beyond it the oldest go, some at a time.
	maxDeployments  = 100_000
	dropDeployments = 1_000
)

// History is what served when. Nothing in it is changed.
type History struct {
	documents edgewise.Documents
	publish   func(topic string, data any)
	names     func(model string, at int64) string
	logger    *slog.Logger
}

// NewHistory makes a History in documents. publish is called with each entry. names returns the present name of the
// model that had a name at a time, in Unix seconds.
func NewHistory(
	documents edgewise.Documents, publish func(topic string, data any), names func(model string, at int64) string,
	logger *slog.Logger,
) *History {
	return &History{documents, publish, names, logger}
}

// Note writes that a label moved, or did not. e says which label of which model, and between which versions.
func (d *History) Note(ctx context.Context, e admin.Deployment, began time.Time, failed error) {
	if d == nil {
		return
	}
	actor := "box"
	if p := edgewise.PrincipalOf(ctx); p != nil {
		actor = p.Actor()
	}
	cause := admin.CauseOf(ctx)
	if cause == "" {
		cause = admin.CauseLabel
	}
	e.Time, e.Actor, e.Cause, e.Done = time.Now().UTC(), actor, cause, failed == nil
	e.Milliseconds = time.Since(began).Milliseconds()
	if failed != nil {
		e.Error, e.SignatureChanges = failed.Error(), nil
	}
	err := d.documents.Update(func(tx edgewise.DocumentsTx) error {
		number, err := appendDeployment(tx, &e)
		if err != nil || number%dropDeployments != 0 || number <= maxDeployments {
			return err
		}
		return tx.Drop(DeploymentsBucket, dropDeployments)
	})
	if err != nil {
		d.logger.Error("the history of deployments was not written",
			"model", e.Model, "label", e.Label, "version", e.To, "error", err)
	}
	d.publish("deployment", e)
}

// List returns the latest deployments, of one model or of all for "". A model that was renamed has its present name.
func (d *History) List(model string, limit int) ([]admin.Deployment, error) {
	list := []admin.Deployment{}
	err := d.documents.View(func(tx edgewise.DocumentsTx) error {
		tx.Backward(DeploymentsBucket, 0, func(_ uint64, value []byte) bool {
			var e admin.Deployment
			if json.Unmarshal(value, &e) != nil {
				return true
			}
			e.Model = d.names(e.Model, e.Time.Unix())
			if model == "" || e.Model == model {
				list = append(list, e)
			}
			return len(list) < limit
		})
		return nil
	})
	return list, err
}

// Append adds a deployment of another box, under the next number of this one.
func (d *History) Append(tx edgewise.DocumentsTx, e admin.Deployment) error {
	_, err := appendDeployment(tx, &e)
	return err
}

func appendDeployment(tx edgewise.DocumentsTx, e *admin.Deployment) (number uint64, err error) {
	return tx.Append(DeploymentsBucket, func(number uint64) ([]byte, error) {
		e.Number = number
		return json.Marshal(e)
	})
}
