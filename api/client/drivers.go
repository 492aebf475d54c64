package client

import (
	"context"
	"net/http"
	"net/url"
	"os"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

const driversPath = "/api/v1/system/drivers"

// Drivers lists the driver extensions of the box and its devices for graphics.
func (c *Client) Drivers(ctx context.Context) (*admin.Drivers, error) {
	var d admin.Drivers
	return &d, c.call(ctx, http.MethodGet, driversPath, nil, &d)
}

// SendDriver installs a driver extension, whose file remains the caller's. Errors: Unsupported, Busy, TooLarge,
// Exhausted, Invalid, Denied, Conflict, Exists.
func (c *Client) SendDriver(ctx context.Context, file *os.File) (*admin.Drivers, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, edgewise.Errorf("client.SendDriver", edgewise.Invalid, "%w", err)
	}
	var d admin.Drivers
	return &d, c.send(ctx, driversPath, http.Header{"Content-Type": {"application/octet-stream"}}, info.Size(), file, &d)
}

// RemoveDriver removes all versions of a driver. Errors: NotFound, Unsupported.
func (c *Client) RemoveDriver(ctx context.Context, name string) (*admin.Drivers, error) {
	var d admin.Drivers
	return &d, c.call(ctx, http.MethodDelete, driversPath+"/"+url.PathEscape(name), nil, &d)
}

// RollBackDriver prefers the version of a driver that was installed before. Errors: NotFound, Conflict, Unsupported.
func (c *Client) RollBackDriver(ctx context.Context, name string) (*admin.Drivers, error) {
	var d admin.Drivers
	return &d, c.call(ctx, http.MethodPost, driversPath+"/"+url.PathEscape(name)+"/rollback", nil, &d)
}
