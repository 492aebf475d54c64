package client

import (
	"context"
	"net/http"

	"github.com/edgewise-ai/edgewise/api/admin"
)

// Fleet returns what the document of its fleet has told the box, what the box did, and what failed.
func (c *Client) Fleet(ctx context.Context) (s admin.Fleet, err error) {
	err = c.call(ctx, http.MethodGet, "/api/v1/fleet", nil, &s)
	return s, err
}

// FleetDiff returns what a document would want of the box. Errors: Invalid, TooLarge.
func (c *Client) FleetDiff(ctx context.Context, document string) (d admin.FleetDifference, err error) {
	err = c.call(ctx, http.MethodPost, "/api/v1/fleet/diff", admin.FleetQuestion{Document: document}, &d)
	return d, err
}

// PollFleet lets the box ask for the document now. Errors: Conflict where it follows none.
func (c *Client) PollFleet(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/api/v1/fleet/poll", nil, nil)
}

// ForgetFleet lets the box forget the document that it follows, and the serial under which it refuses others.
func (c *Client) ForgetFleet(ctx context.Context) error {
	return c.call(ctx, http.MethodDelete, "/api/v1/fleet", nil, nil)
}
