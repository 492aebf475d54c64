package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// Models lists every model in the store.
func (c *Client) Models(ctx context.Context) ([]admin.Model, error) {
	var models []admin.Model
	err := c.call(ctx, http.MethodGet, "/api/v1/models", nil, &models)
	return models, err
}

// Model returns one model. Errors: NotFound.
func (c *Client) Model(ctx context.Context, name string) (*admin.Model, error) {
	var m admin.Model
	return &m, c.call(ctx, http.MethodGet, modelPath(name), nil, &m)
}

// Inspect returns the inspection of a version's files. Errors: NotFound.
func (c *Client) Inspect(ctx context.Context, id edgewise.ModelID) (*edgewise.Inspection, error) {
	var i edgewise.Inspection
	return &i, c.call(ctx, http.MethodGet, versionPath(id)+"/inspection", nil, &i)
}

// Version returns a version with its declaration. Errors: NotFound.
func (c *Client) Version(ctx context.Context, id edgewise.ModelID) (*admin.VersionDetail, error) {
	var d admin.VersionDetail
	return &d, c.call(ctx, http.MethodGet, versionPath(id), nil, &d)
}

// Measure has a ready version measured once more on the devices of the box. Errors: NotFound, Unavailable, Unsupported.
func (c *Client) Measure(ctx context.Context, id edgewise.ModelID) (*admin.Choice, error) {
	var found admin.Choice
	return &found, c.call(ctx, http.MethodPost, versionPath(id)+"/measure", nil, &found)
}

// Propose returns pipelines that a version may be meant for, the likeliest first. Errors: NotFound.
func (c *Client) Propose(ctx context.Context, id edgewise.ModelID) ([]admin.Proposal, error) {
	var list []admin.Proposal
	return list, c.call(ctx, http.MethodGet, versionPath(id)+"/proposals", nil, &list)
}

// Compare returns what differs between two versions of a model. Errors: NotFound.
func (c *Client) Compare(ctx context.Context, name string, from, to int64) (admin.Comparison, error) {
	var compared admin.Comparison
	path := fmt.Sprintf("%s/comparison?from=%d&to=%d", modelPath(name), from, to)
	return compared, c.call(ctx, http.MethodGet, path, nil, &compared)
}

// Promote points a label to a version, once the box has loaded it.
func (c *Client) Promote(ctx context.Context, name, label string, version int64) (admin.LabelMove, error) {
	var l admin.LabelMove
	err := c.call(ctx, http.MethodPut, labelPath(name, label), admin.SetLabel{Version: version}, &l)
	return l, err
}

// Rollback points a label to where it pointed before.
func (c *Client) Rollback(ctx context.Context, name, label string) (admin.LabelMove, error) {
	var l admin.LabelMove
	err := c.call(ctx, http.MethodPost, modelPath(name)+"/rollback", admin.Rollback{Label: label}, &l)
	return l, err
}

// Rename gives a model another name, and returns it when it is ready under that.
func (c *Client) Rename(ctx context.Context, name, to string) (admin.Model, error) {
	var m admin.Model
	err := c.call(ctx, http.MethodPost, modelPath(name)+"/rename", admin.Rename{Name: to}, &m)
	return m, err
}

// RemoveLabel forgets a label.
func (c *Client) RemoveLabel(ctx context.Context, name, label string) error {
	return c.call(ctx, http.MethodDelete, labelPath(name, label), nil, nil)
}

// DeleteVersion deletes a version that no label points to.
func (c *Client) DeleteVersion(ctx context.Context, id edgewise.ModelID) error {
	return c.call(ctx, http.MethodDelete, versionPath(id), nil, nil)
}

// DeleteModel deletes a model with all its versions.
func (c *Client) DeleteModel(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, modelPath(name), nil, nil)
}

// Rollouts lists the present or the latest rollout of each model.
func (c *Client) Rollouts(ctx context.Context) ([]admin.Rollout, error) {
	var list []admin.Rollout
	err := c.call(ctx, http.MethodGet, "/api/v1/rollouts", nil, &list)
	return list, err
}

// Rollout returns the present or the latest rollout of a model. Errors: NotFound.
func (c *Client) Rollout(ctx context.Context, name string) (admin.Rollout, error) {
	var r admin.Rollout
	err := c.call(ctx, http.MethodGet, modelPath(name)+"/rollout", nil, &r)
	return r, err
}

// Tuning returns the present or the latest tuning of a model since the box was started. Errors: NotFound.
func (c *Client) Tuning(ctx context.Context, name string) (t admin.Tuning, err error) {
	err = c.call(ctx, http.MethodGet, modelPath(name)+"/tuning", nil, &t)
	return t, err
}

// Tunings returns the present or the latest tuning of a model, and which versions have a report. Errors: NotFound.
func (c *Client) Tunings(ctx context.Context, name string) (t admin.Tunings, err error) {
	err = c.call(ctx, http.MethodGet, modelPath(name)+"/tunings", nil, &t)
	return t, err
}

// StartTuning queues a tuning of a model's live version. Errors: NotFound, Invalid, Conflict, Unsupported, Busy.
func (c *Client) StartTuning(ctx context.Context, name string, ask admin.TuneRequest) (t admin.Tuning, err error) {
	err = c.call(ctx, http.MethodPost, modelPath(name)+"/tuning", ask, &t)
	return t, err
}

// StopTuning ends the tuning of a model. Errors: NotFound, Conflict.
func (c *Client) StopTuning(ctx context.Context, name string) (t admin.Tuning, err error) {
	err = c.call(ctx, http.MethodPost, modelPath(name)+"/tuning/stop", nil, &t)
	return t, err
}

// TuneReport returns what a tuning has found of a version. Errors: NotFound.
func (c *Client) TuneReport(ctx context.Context, id edgewise.ModelID) (*admin.TuneReport, error) {
	var r admin.TuneReport
	return &r, c.call(ctx, http.MethodGet, versionPath(id)+"/tuning", nil, &r)
}

// Roofline returns what was measured of the processor. Error: NotFound.
func (c *Client) Roofline(ctx context.Context) (*admin.Roofline, error) {
	var r admin.Roofline
	return &r, c.call(ctx, http.MethodGet, "/api/v1/roofline", nil, &r)
}

// MeasureRoofline measures the processor when no client sends requests. Error: Busy.
func (c *Client) MeasureRoofline(ctx context.Context) (*admin.Roofline, error) {
	var r admin.Roofline
	return &r, c.call(ctx, http.MethodPost, "/api/v1/roofline", nil, &r)
}

// Bound says what bounds a ready version. Errors: NotFound, Unavailable.
func (c *Client) Bound(ctx context.Context, id edgewise.ModelID) (*admin.Bound, error) {
	var b admin.Bound
	return &b, c.call(ctx, http.MethodGet, versionPath(id)+"/bound", nil, &b)
}

// Capacity answers whether the box carries models at rates. Errors: Invalid, NotFound, Unavailable, Unsupported, Busy.
func (c *Client) Capacity(ctx context.Context, ask admin.CapacityRequest) (*admin.Capacity, error) {
	var found admin.Capacity
	return &found, c.call(ctx, http.MethodPost, "/api/v1/capacity", ask, &found)
}

// StartRollout loads the candidate of a plan and begins the rollout.
func (c *Client) StartRollout(ctx context.Context, name string, plan admin.RolloutPlan) (admin.Rollout, error) {
	var r admin.Rollout
	err := c.call(ctx, http.MethodPost, modelPath(name)+"/rollout", plan, &r)
	return r, err
}

// RolloutSettings say how uploaded versions of a model go live.
func (c *Client) RolloutSettings(ctx context.Context, name string) (s admin.RolloutSettings, err error) {
	err = c.call(ctx, http.MethodGet, modelPath(name)+"/rollout/settings", nil, &s)
	return s, err
}

// SetRolloutSettings changes how uploaded versions of a model go live.
func (c *Client) SetRolloutSettings(
	ctx context.Context, name string, s admin.RolloutSettings,
) (found admin.RolloutSettings, err error) {
	err = c.call(ctx, http.MethodPut, modelPath(name)+"/rollout/settings", s, &found)
	return found, err
}

// MoveRollout does promote, stop or rollback to a rollout in progress.
func (c *Client) MoveRollout(ctx context.Context, name, action string) (admin.Rollout, error) {
	var r admin.Rollout
	err := c.call(ctx, http.MethodPost, modelPath(name)+"/rollout/"+action, nil, &r)
	return r, err
}

func modelPath(name string) string { return "/api/v1/models/" + url.PathEscape(name) }

func labelPath(name, label string) string {
	return modelPath(name) + "/labels/" + url.PathEscape(label)
}

func versionPath(id edgewise.ModelID) string {
	return modelPath(id.Name) + "/versions/" + strconv.FormatInt(id.Version, 10)
}

const usersPath = "/api/v1/users"

// Users lists all users, by name. Like the other calls about users it needs the right admin.
func (c *Client) Users(ctx context.Context) (users []admin.User, err error) {
	err = c.call(ctx, http.MethodGet, usersPath, nil, &users)
	return users, err
}

// AddUser makes a user. Errors: Invalid with Field, Exists, TooLarge.
func (c *Client) AddUser(ctx context.Context, n admin.UserNew) (u admin.User, err error) {
	err = c.call(ctx, http.MethodPost, usersPath, n, &u)
	return u, err
}

// ChangeUser changes the members of change that are not nil. Errors: NotFound, Invalid with Field, Conflict for the
// last admin.
func (c *Client) ChangeUser(ctx context.Context, name string, change admin.UserChange) (u admin.User, err error) {
	err = c.call(ctx, http.MethodPatch, usersPath+"/"+url.PathEscape(name), change, &u)
	return u, err
}
