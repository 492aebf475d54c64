package frontend

import (
	"net/netip"
	"testing"
)

func TestTheClientIsTheLastAddressThatIsNoProxys(t *testing.T) {
	proxies, err := ParseProxies([]string{"10.0.0.0/8", "192.0.2.7", "2001:db8::/64"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, peer, client string
		forwarded          []string
	}{
		{"a client that claims to be another", "203.0.113.5", "203.0.113.5", []string{"198.51.100.1"}},
		{"a proxy that names nobody", "10.0.0.1", "10.0.0.1", nil},
		{"one proxy", "10.0.0.1", "198.51.100.1", []string{"198.51.100.1"}},
		{"one proxy, mapped into IPv6", "::ffff:10.0.0.1", "198.51.100.1", []string{"198.51.100.1"}},
		{"two proxies", "10.0.0.1", "198.51.100.1", []string{"198.51.100.1, 192.0.2.7"}},
		{"two proxies, in two headers", "10.0.0.1", "198.51.100.1", []string{"198.51.100.1", "192.0.2.7"}},
		{"a client that claims to be another, behind a proxy", "10.0.0.1", "198.51.100.1", []string{"127.0.0.1", "198.51.100.1"}},
		{"a client that claims to be a proxy's", "10.0.0.1", "198.51.100.1", []string{"127.0.0.1, 10.9.9.9 ,198.51.100.1"}},
		{"nobody but proxies", "10.0.0.1", "10.0.0.3", []string{"10.0.0.3, 10.0.0.2"}},
		{"IPv6", "2001:db8::1", "2001:db8:1::5", []string{"2001:db8:1::5"}},
		{"IPv6 with brackets", "2001:db8::1", "2001:db8:1::5", []string{"[2001:db8:1::5]"}},
		{"ports", "2001:db8::1", "198.51.100.1", []string{"198.51.100.1:4711, [2001:db8::2]:80"}},
		{"what is no address", "10.0.0.1", "10.0.0.1", []string{"198.51.100.1, unknown"}},
		{"what is no address, further on", "10.0.0.1", "10.0.0.2", []string{"_hidden, 10.0.0.2"}},
		{"an empty entry", "10.0.0.1", "10.0.0.1", []string{"198.51.100.1,"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := proxies.Client(netip.MustParseAddr(test.peer), test.forwarded); got.Unmap().String() != test.client {
				t.Errorf("the client is %v, want %s", got, test.client)
			}
		})
	}
	if got := Proxies(nil).Client(netip.MustParseAddr("127.0.0.1"), []string{"198.51.100.1"}); got.String() != "127.0.0.1" {
		t.Errorf("without trusted proxies the client is %v", got)
	}
}

func TestWhatIsNoNetworkIsNoProxy(t *testing.T) {
	for _, text := range []string{"", "proxy.example", "10.0.0.0/33", "10.0.0.1:80", "fe80::1%eth0", "*"} {
		if _, err := ParseProxies([]string{text}); err == nil {
			t.Errorf("%q is a network", text)
		}
	}
}
