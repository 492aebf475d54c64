package edgewise

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// maxOrigin bounds an origin, in bytes: a scheme, a host name and a port.
const maxOrigin = 300

// CheckOrigin returns nil for an origin as a browser sends it, such as https://shop.example:8443, and for "*", which
// stands for all. Error: Invalid.
func CheckOrigin(origin string) error {
	if origin == "*" {
		return nil
	}
	u, err := url.Parse(origin)
	if err != nil || len(origin) > maxOrigin || u.Scheme != "http" && u.Scheme != "https" || !isHost(u.Hostname()) ||
		origin != u.Scheme+"://"+u.Host || origin != strings.ToLower(origin) {
		return &Error{Op: "edgewise.CheckOrigin", Kind: Invalid, Err: fmt.Errorf(
			"origin %.300q: want http:// or https://, a host in small letters, and a port that is not the scheme's own", origin)}
	}
	if port := u.Port(); u.Scheme == "http" && port == "80" || u.Scheme == "https" && port == "443" {
		return &Error{
			Op: "edgewise.CheckOrigin", Kind: Invalid,
			Err: fmt.Errorf("origin %.300q: browsers leave the port %s out", origin, port),
		}
	}
	return nil
}

// isHost tells whether a browser can have a page of this host, in small letters.
func isHost(name string) bool {
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-._") == ""
}
