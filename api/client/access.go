package client

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
)

// WithToken makes the client send an API key, or the local token of a box, with every request.
func WithToken(token string) Option { return func(c *Client) { c.token = token } }

// WithAuthorities makes the client trust the boxes whose certificates these authorities have signed, and no others.
func WithAuthorities(pool *x509.CertPool) Option {
	return func(c *Client) {
		if t, ok := c.http.Transport.(*http.Transport); ok {
			t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
		}
	}
}
