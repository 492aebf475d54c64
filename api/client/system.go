package client

import (
	"context"
	"encoding/base64"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

const (
	updatePath = "/api/v1/system/update"
	// updateLook is how often AwaitUpdate asks.
	updateLook = 500 * time.Millisecond
)

// System describes the box.
func (c *Client) System(ctx context.Context) (*admin.System, error) {
	var s admin.System
	return &s, c.call(ctx, http.MethodGet, "/api/v1/system", nil, &s)
}

// Backends lists the backends of other programs.
func (c *Client) Backends(ctx context.Context) (list []admin.Backend, err error) {
	return list, c.call(ctx, http.MethodGet, "/api/v1/backends", nil, &list)
}

// SendUpdate sends an update of the box's system, of which the caller remains the owner. signature is that of a package
// as minisign writes it, empty for a bundle; confirmed takes also what is older than what runs.
func (c *Client) SendUpdate(ctx context.Context, file *os.File, signature []byte, confirmed bool) (*admin.SystemUpdate,
	error,
) {
	info, err := file.Stat()
	if err != nil {
		return nil, edgewise.Errorf("client.SendUpdate", edgewise.Invalid, "%w", err)
	}
	header := http.Header{"Content-Type": {"application/octet-stream"}}
	if len(signature) > 0 {
		header.Set("Edgewise-Signature", base64.StdEncoding.EncodeToString(signature))
	}
	var u admin.SystemUpdate
	return &u, c.send(ctx, updatePath+"?confirmed="+strconv.FormatBool(confirmed), header, info.Size(), file, &u)
}

// AwaitUpdate waits until a sent update is ready for a restart. progress, which may be nil, is called with its
// progress. Errors: Conflict when it waits for a confirmation, Invalid when it was refused, Canceled.
func (c *Client) AwaitUpdate(ctx context.Context, u *admin.SystemUpdate, progress func(percent int, doing string)) (
	*admin.SystemUpdate, error,
) {
	const op = "client.AwaitUpdate"
	ticker := time.NewTicker(updateLook)
	defer ticker.Stop()
	told := ""
	for {
		if u.Job == nil {
			return u, edgewise.Errorf(op, edgewise.Conflict, "the box knows of no update: it has started again since")
		}
		switch u.Job.State {
		case admin.UpdateReady:
			return u, nil
		case admin.UpdateWaiting:
			return u, edgewise.Errorf(op, edgewise.Conflict, "%s To install it all the same: --allow-downgrade", u.Job.Confirm)
		case admin.UpdateFailed:
			return u, edgewise.Errorf(op, edgewise.Invalid, "%s", u.Job.Error)
		case admin.UpdateCanceled:
			return u, edgewise.Errorf(op, edgewise.Canceled, "the update was given up")
		}
		if now := strconv.Itoa(u.Job.Percent) + u.Job.Doing; progress != nil && now != told {
			progress(u.Job.Percent, u.Job.Doing)
			told = now
		}
		select {
		case <-ctx.Done():
			return u, edgewise.Errorf(op, edgewise.KindOf(ctx.Err()), "%w", ctx.Err())
		case <-ticker.C:
		}
		next := &admin.SystemUpdate{}
		if err := c.call(ctx, http.MethodGet, updatePath, nil, next); err != nil {
			return u, err
		}
		u = next
	}
}

// CancelUpdate gives an update up. Errors: NotFound, Conflict.
func (c *Client) CancelUpdate(ctx context.Context) error {
	return c.call(ctx, http.MethodDelete, updatePath, nil, nil)
}

// RollBackSystem goes back to the version that ran before. Errors: Conflict, Unsupported.
func (c *Client) RollBackSystem(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/api/v1/system/rollback", nil, nil)
}

// RestartSystem restarts the box, which brings an update that is ready. Errors: Unsupported.
func (c *Client) RestartSystem(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/api/v1/system/restart", nil, nil)
}

// EraseSystem erases models, accounts and settings. word is admin.ResetWord. Errors: Invalid, Unsupported.
func (c *Client) EraseSystem(ctx context.Context, word string) error {
	return c.call(ctx, http.MethodPost, "/api/v1/system/factory-reset", admin.FactoryReset{Confirm: word}, nil)
}

// LeaveSafeStart loads the models that a safe start has left out. Errors: Conflict.
func (c *Client) LeaveSafeStart(ctx context.Context) error {
	return c.call(ctx, http.MethodDelete, "/api/v1/system/safe-start", nil, nil)
}
