// Package certificate is the box's TLS identity: an authority and a certificate of its own from the first start on, or
// what its owner uploaded. It also tells TLS from plain text on one port, and leads those who come in plain text to
// TLS.
package certificate
