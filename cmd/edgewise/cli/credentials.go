package cli

import (
	"crypto/x509"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/appliance/access"
)

// TokenVariable holds an API key for the commands that talk to a box.
const TokenVariable = "EDGEWISE_TOKEN"

// Credentials are what the box is shown, and how it is recognised.
type Credentials struct {
	Token       string
	Authorities *x509.CertPool // nil: those of the system
}

// Credentials finds out how to speak to the box: what --token and --ca say, else EDGEWISE_TOKEN, else, for a box of the
// same user on this machine, what that box has left for its user.
func (p *Program) Credentials() (Credentials, error) {
	c := Credentials{Token: p.Token}
	if c.Token == "" {
		c.Token = variableOf(p.Environment, TokenVariable)
	}
	authority := p.Authority
	if port := localPort(p.Server); port != "" {
		local := access.To(port)
		if c.Token == "" {
			c.Token = local.Token
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
		return c, Usagef("--ca: %w", err)
	}
	c.Authorities = x509.NewCertPool()
	if !c.Authorities.AppendCertsFromPEM(text) {
		return c, Usagef("--ca %s: no certificate in it", authority)
	}
	return c, nil
}

func (c Credentials) options() []client.Option {
	var list []client.Option
	if c.Token != "" {
		list = append(list, client.WithToken(c.Token))
	}
	if c.Authorities != nil {
		list = append(list, client.WithAuthorities(c.Authorities))
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
