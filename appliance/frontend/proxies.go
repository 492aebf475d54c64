package frontend

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// ForwardedFor is the header, and the metadata of gRPC, in which proxies name the client.
const ForwardedFor = "X-Forwarded-For"

// Proxies are the networks of the proxies that are trusted to name the clients of their requests.
type Proxies []netip.Prefix

// ParseProxies reads addresses and networks, such as 192.0.2.7 and 10.0.0.0/8. Error: Invalid.
func ParseProxies(texts []string) (p Proxies, err error) {
	for _, text := range texts {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			address, failed := netip.ParseAddr(text)
			if failed != nil || address.Zone() != "" {
				return nil, edgewise.Errorf("frontend.ParseProxies", edgewise.Invalid, "%.100q: want an address or a network such as 10.0.0.0/8", text)
			}
			network = netip.PrefixFrom(address, address.BitLen())
		}
		p = append(p, network.Masked())
	}
	return p, nil
}

// Client returns the client of a request that peer has sent; forwarded are the values of its ForwardedFor. Each proxy adds the
// address that it was asked from at the end, so the last one that is no proxy's is the client's: anybody may have written those
// before it. An entry that is no address ends the list.
func (p Proxies) Client(peer netip.Addr, forwarded []string) netip.Addr {
	if len(p) == 0 {
		return peer
	}
	entries := strings.Split(strings.Join(forwarded, ","), ",")
	for _, entry := range slices.Backward(entries) {
		if !p.trust(peer) {
			break
		}
		address, ok := entryAddress(strings.TrimSpace(entry))
		if !ok {
			break
		}
		peer = address
	}
	return peer
}

func (p Proxies) trust(address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(address) })
}

// entryAddress reads an entry, which some proxies write with a port.
func entryAddress(text string) (address netip.Addr, ok bool) {
	if at, err := netip.ParseAddrPort(text); err == nil {
		text = at.Addr().String()
	}
	address, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return address.Unmap().WithZone(""), err == nil
}
