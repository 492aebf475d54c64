package client

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/edgewise-ai/edgewise/api/admin"
)

func recordingPath(model string) string { return modelPath(model) + "/recording" }

// Recordings returns those of all models that have settings or recorded requests.
func (c *Client) Recordings(ctx context.Context) (list []admin.Recording, err error) {
	err = c.call(ctx, http.MethodGet, "/api/v1/recordings", nil, &list)
	return list, err
}

// Recording returns which requests to a model are recorded. Errors: NotFound.
func (c *Client) Recording(ctx context.Context, model string) (found admin.Recording, err error) {
	err = c.call(ctx, http.MethodGet, recordingPath(model), nil, &found)
	return found, err
}

// SetRecording says which requests to a model are recorded. Errors: NotFound, Invalid with Field.
func (c *Client) SetRecording(ctx context.Context, model string, s admin.RecordingSettings) (set admin.Recording, err error) {
	err = c.call(ctx, http.MethodPut, recordingPath(model), s, &set)
	return set, err
}

// DeleteRecording ends a recording and deletes all of it.
func (c *Client) DeleteRecording(ctx context.Context, model string) error {
	return c.call(ctx, http.MethodDelete, recordingPath(model), nil, nil)
}

// RecordedRequests returns the latest recorded requests of a model, latest first.
func (c *Client) RecordedRequests(ctx context.Context, model string, limit int) (list []admin.RecordedRequest, err error) {
	err = c.call(ctx, http.MethodGet, fmt.Sprintf("%s/requests?limit=%d", recordingPath(model), limit), nil, &list)
	return list, err
}

// RecordedRequest returns a recorded request in the form of appliance/example. Errors: NotFound.
func (c *Client) RecordedRequest(ctx context.Context, model string, number uint64) ([]byte, error) {
	res, err := c.do(ctx, http.MethodGet, fmt.Sprintf("%s/requests/%d", recordingPath(model), number), nil, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	return c.readAnswer(res)
}

// DeleteRecordedRequest deletes a recorded request. Errors: NotFound.
func (c *Client) DeleteRecordedRequest(ctx context.Context, model string, number uint64) error {
	return c.call(ctx, http.MethodDelete, fmt.Sprintf("%s/requests/%d", recordingPath(model), number), nil, nil)
}

// RecordingArchive returns a tar archive of the latest recorded requests, oldest first. The caller closes it. Errors:
// NotFound.
func (c *Client) RecordingArchive(ctx context.Context, model string, limit int) (io.ReadCloser, error) {
	res, err := c.do(ctx, http.MethodGet, fmt.Sprintf("%s/archive?limit=%d", recordingPath(model), limit), nil, nil)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}
