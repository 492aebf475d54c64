package grpcapi

import (
	"context"
	"crypto/tls"
	"io"
	"net"

	"google.golang.org/grpc/credentials"

	"github.com/edgewise-ai/edgewise"
)

// tlsRecord is the first byte of a TLS connection; a call in plain text begins with a letter.
const tlsRecord = 0x16

// sniffing are credentials that accept TLS, and plain text from the peers that may use it.
type sniffing struct {
	credentials.TransportCredentials // of TLS
	plain                            func(peer net.Addr) bool
}

func newSniffing(config *tls.Config, plain func(net.Addr) bool) credentials.TransportCredentials {
	return &sniffing{credentials.NewTLS(config), plain}
}

// ServerHandshake tells TLS from plain text by the first byte.
func (s *sniffing) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	first := make([]byte, 1)
	if _, err := io.ReadFull(raw, first); err != nil {
		return nil, nil, err
	}
	read := &prefixed{raw, first}
	switch {
	case first[0] == tlsRecord:
		return s.TransportCredentials.ServerHandshake(read)
	case s.plain(raw.RemoteAddr()):
		return read, plainText{credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}}, nil
	}
	return nil, nil, edgewise.Errorf("grpcapi.ServerHandshake", edgewise.Denied,
		"%v speaks plain text: this port speaks TLS", raw.RemoteAddr())
}

// Clone returns a copy.
func (s *sniffing) Clone() credentials.TransportCredentials {
	return &sniffing{s.TransportCredentials.Clone(), s.plain}
}

// ClientHandshake is not used by a server.
func (s *sniffing) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo,
	error,
) {
	return s.TransportCredentials.ClientHandshake(ctx, authority, raw)
}

// plainText is the AuthInfo of an unprotected connection.
type plainText struct{ credentials.CommonAuthInfo }

// AuthType names it.
func (plainText) AuthType() string { return "insecure" }

// prefixed is a connection whose first bytes were read before.
type prefixed struct {
	net.Conn
	first []byte
}

func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.first) > 0 {
		n := copy(b, p.first)
		p.first = p.first[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}
