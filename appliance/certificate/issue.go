package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"os"
	"slices"
	"time"
)

// How long certificates hold. Browsers refuse leaves that hold longer than 398 days.
const (
	authorityTime = 10 * 365 * 24 * time.Hour
	leafTime      = 397 * 24 * time.Hour
	renewBefore   = 30 * 24 * time.Hour
	backdate      = 24 * time.Hour // boxes and their clients do not agree about the time
)

func newAuthority() (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	template := template("Edgewise authority of "+host, authorityTime)
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	return sign(template, &tls.Certificate{Leaf: template, PrivateKey: key}, key)
}

// issue makes a certificate for host names and addresses.
func issue(authority *tls.Certificate, names []string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	common := "edgewise"
	if len(names) > 0 {
		common = names[0]
	}
	template := template(common, leafTime)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	return sign(template, authority, key)
}

func template(common string, last time.Duration) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)) // which cannot fail
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)),
		Subject:      pkix.Name{CommonName: common, Organization: []string{"Edgewise"}},
		NotBefore:    now.Add(-backdate), NotAfter: now.Add(last - backdate),
	}
}

// sign makes the certificate of template and key. Its chain ends with that of the authority, unless that is itself.
func sign(template *x509.Certificate, authority *tls.Certificate, key *ecdsa.PrivateKey) (*tls.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, authority.Leaf, key.Public(), authority.PrivateKey)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: append([][]byte{der}, authority.Certificate...), PrivateKey: key, Leaf: leaf}, err
}

// maxNames bounds the names of a certificate; a machine may have thousands of addresses.
const maxNames = 64

// Names lists what this machine can be reached under: its host name, alone and in the local domain, localhost, its
// addresses, and more.
func Names(more []string) []string {
	list := []string{}
	if host, err := os.Hostname(); err == nil && host != "" && host != "localhost" {
		list = append(list, host, host+".local")
	}
	list = append(list, "localhost")
	list = append(list, more...)
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() {
			list = append(list, n.IP.String())
		}
	}
	list = append(list, "127.0.0.1", "::1")
	seen := []string{}
	for _, name := range list {
		if name != "*" && !slices.Contains(seen, name) && len(seen) < maxNames {
			seen = append(seen, name)
		}
	}
	return seen
}
