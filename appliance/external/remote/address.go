package remote

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// Address is where a server listens.
type Address struct {
	text    string
	network string // tcp or unix
	target  string // host:port or a path
	grpc    bool
}

// addressForms are those of addresses, for messages.
const addressForms = "unix:/run/x.sock, http://127.0.0.1:9000, grpc://127.0.0.1:9001 or grpc+unix:/run/x.sock"

// maxSocketPath is the longest path of a Unix socket, in bytes.
const maxSocketPath = 107

// ParseAddress reads an address of this machine. Error: Invalid.
func ParseAddress(text string) (Address, error) {
	a := Address{text: text}
	path, unix := strings.CutPrefix(text, "unix:")
	if rest, ok := strings.CutPrefix(text, "grpc+unix:"); ok {
		path, unix, a.grpc = rest, true, true
	}
	if unix {
		a.network, a.target = "unix", path
		if !filepath.IsAbs(path) || len(path) > maxSocketPath {
			return a, refused(text, "want the path of a socket from /, of at most %d bytes", maxSocketPath)
		}
		return a, nil
	}
	rest, http := strings.CutPrefix(text, "http://")
	if !http {
		if rest, a.grpc = strings.CutPrefix(text, "grpc://"); !a.grpc {
			return a, refused(text, "want %s", addressForms)
		}
	}
	host, port, err := net.SplitHostPort(strings.TrimSuffix(rest, "/"))
	if _, wrong := strconv.ParseUint(port, 10, 16); err != nil || wrong != nil {
		return a, refused(text, "want a host, a port and no path: %s", addressForms)
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return a, refused(text, "%q is not this machine: want 127.0.0.1, ::1, localhost or a Unix socket", host)
	}
	a.network, a.target = "tcp", net.JoinHostPort(host, port)
	return a, nil
}

func refused(text, format string, args ...any) error {
	return edgewise.Errorf("remote.ParseAddress", edgewise.Invalid, "address %q: %s", text, fmt.Sprintf(format, args...))
}

// String returns the address as it was written.
func (a Address) String() string { return a.text }

// connectTimeout bounds the time until a connection stands.
const connectTimeout = 5 * time.Second

// dial connects. A name that leads away from this machine is refused.
func (a Address) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{Timeout: connectTimeout, Control: func(network, address string, _ syscall.RawConn) error {
		if network == "unix" {
			return nil
		}
		at, err := netip.ParseAddrPort(address)
		if err != nil || !at.Addr().Unmap().IsLoopback() {
			return fmt.Errorf("%s is not this machine", address)
		}
		return nil
	}}
	return d.DialContext(ctx, a.network, a.target)
}
