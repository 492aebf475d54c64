package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/edgewise-ai/edgewise/api/admin"
)

const usersPath = "/api/v1/users"

// Users lists everybody who may log in, by name. It needs the right admin, as everything about users does.
func (c *Client) Users(ctx context.Context) (users []admin.User, err error) {
	err = c.call(ctx, http.MethodGet, usersPath, nil, &users)
	return users, err
}

// AddUser makes a user. Errors: Invalid with Field, Exists, TooLarge.
func (c *Client) AddUser(ctx context.Context, n admin.UserNew) (u admin.User, err error) {
	err = c.call(ctx, http.MethodPost, usersPath, n, &u)
	return u, err
}

// ChangeUser changes what is not nil. Errors: NotFound, Invalid with Field, Conflict for the last admin.
func (c *Client) ChangeUser(ctx context.Context, name string, change admin.UserChange) (u admin.User, err error) {
	err = c.call(ctx, http.MethodPatch, usersPath+"/"+url.PathEscape(name), change, &u)
	return u, err
}
