package client

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// Goldens returns the goldens of a model with their policy and rules. Errors: NotFound.
func (c *Client) Goldens(ctx context.Context, model string) (all admin.Goldens, err error) {
	err = c.call(ctx, http.MethodGet, modelPath(model)+"/goldens", nil, &all)
	return all, err
}

// SetGoldens replaces the policy and the rules. Errors: NotFound, Invalid with Field.
func (c *Client) SetGoldens(ctx context.Context, model string, s admin.GoldenSettings) error {
	return c.call(ctx, http.MethodPut, modelPath(model)+"/goldens", s, nil)
}

// AddGolden stores a request with the answer that the box gives to it. Errors: those of an inference, TooLarge.
func (c *Client) AddGolden(ctx context.Context, name string, req *edgewise.Request) (one admin.Golden, err error) {
	body, jsonSize, err := kserve.AppendInferRequest(nil, req, kserve.Binary, kserve.Binary)
	if err != nil {
		return one, err
	}
	header := http.Header{"Content-Type": {"application/octet-stream"}, kserve.HeaderLength: {strconv.Itoa(jsonSize)}}
	query := url.Values{"name": {name}}
	if req.Model.Version != 0 {
		query.Set("version", strconv.FormatInt(req.Model.Version, 10))
	}
	return c.addGolden(ctx, req.Model.Name, query, header, body)
}

// AddExample stores an encoded example as a golden. Errors: Invalid, TooLarge, NotFound.
func (c *Client) AddExample(ctx context.Context, model, name string, example []byte) (admin.Golden, error) {
	return c.addGolden(ctx, model, url.Values{"name": {name}}, http.Header{"Content-Type": {admin.MediaExample}}, example)
}

func (c *Client) addGolden(
	ctx context.Context, model string, query url.Values, header http.Header, body []byte,
) (one admin.Golden, err error) {
	path := modelPath(model) + "/goldens?" + query.Encode()
	err = c.send(ctx, path, header, int64(len(body)), bytes.NewReader(body), &one)
	return one, err
}

// RemoveGolden deletes a golden. Errors: NotFound.
func (c *Client) RemoveGolden(ctx context.Context, model, id string) error {
	return c.call(ctx, http.MethodDelete, modelPath(model)+"/goldens/"+url.PathEscape(id), nil, nil)
}

// RunGoldens has a version answer the goldens of its model. Errors: NotFound, and why the version cannot be loaded.
func (c *Client) RunGoldens(ctx context.Context, id edgewise.ModelID) (report admin.GoldenReport, err error) {
	err = c.call(ctx, http.MethodPost, versionPath(id)+"/goldens", nil, &report)
	return report, err
}

// GoldenReport returns how a version has answered them last. Errors: NotFound.
func (c *Client) GoldenReport(ctx context.Context, id edgewise.ModelID) (report admin.GoldenReport, err error) {
	err = c.call(ctx, http.MethodGet, versionPath(id)+"/goldens", nil, &report)
	return report, err
}
