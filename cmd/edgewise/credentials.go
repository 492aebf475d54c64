package main

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/appliance"
)

// tokenVariable holds an API key for the commands that talk to a box.
const tokenVariable = "EDGEWISE_TOKEN"

// credentials are what the box is shown, and how it is recognised.
type credentials struct {
	token       string
	authorities *x509.CertPool // nil: those of the system
}

// credentials finds out how to speak to the box: what --token and --ca say, else EDGEWISE_TOKEN, else, for a box of the
// same user on this machine, what that box has left for its user.
func (p *program) credentials() (credentials, error) {
	c := credentials{token: p.token}
	if c.token == "" {
		c.token = variableOf(p.environment, tokenVariable)
	}
	authority := p.authority
	if port := localPort(p.server); port != "" {
		local := appliance.LocalAccessTo(port)
		if c.token == "" {
			c.token = local.Token
		}
		if authority == "" {
			authority = local.Authority
		}
	}
	if authority == "" {
		return c, nil
	}
	text, err := os.ReadFile(authority)
	if err != nil {
		return c, usageError{fmt.Errorf("--ca: %w", err)}
	}
	c.authorities = x509.NewCertPool()
	if !c.authorities.AppendCertsFromPEM(text) {
		return c, usageError{fmt.Errorf("--ca %s: no certificate in it", authority)}
	}
	return c, nil
}

func (c credentials) options() []client.Option {
	var list []client.Option
	if c.token != "" {
		list = append(list, client.WithToken(c.token))
	}
	if c.authorities != nil {
		list = append(list, client.WithAuthorities(c.authorities))
	}
	return list
}

// variableOf returns a variable of an environment, "" when it is not set.
func variableOf(environment []string, name string) string {
	i := slices.IndexFunc(environment, func(entry string) bool { return strings.HasPrefix(entry, name+"=") })
	if i < 0 {
		return ""
	}
	return environment[i][len(name)+1:]
}

// localPort returns the port of a base URL on this machine, "" for one elsewhere.
func localPort(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	ip := net.ParseIP(u.Hostname())
	switch {
	case u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()):
		return ""
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}
