package alerts

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/api/admin"
)

// authority signs certificates of mail servers.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority() (authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "an authority of tests"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	text, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return authority{}, err
	}
	certificate, err := x509.ParseCertificate(text)
	return authority{certificate, key}, err
}

// server returns the configuration of a server at an IP address.
func (a authority) server(t *testing.T, address string) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "mail"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.ParseIP(address)},
	}
	text, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{text}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
}

// trusted is the one authority that this process trusts, as a machine trusts those in its store.
var trusted authority

func TestMain(m *testing.M) { os.Exit(runTrusting(m)) }

func runTrusting(m *testing.M) int {
	folder, err := os.MkdirTemp("", "alerts-")
	if err == nil {
		defer func() { _ = os.RemoveAll(folder) }()
		trusted, err = newAuthority()
	}
	if err == nil {
		file := filepath.Join(folder, "authorities.pem")
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: trusted.certificate.Raw})
		err = os.WriteFile(file, text, 0o600)
		for key, value := range map[string]string{"SSL_CERT_FILE": file, "SSL_CERT_DIR": folder} {
			if err == nil {
				err = os.Setenv(key, value)
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// mailTo returns alerts that send to a mail server, and its address as the port of implicit TLS where that is from.
func mailTo(t *testing.T, address, from string) *Alerts {
	t.Helper()
	a, _ := newAlerts(documents{}, &Facts{})
	c, none := change(), ""
	c.WebhookURL, c.EmailServer, c.EmailTo = &none, address, []string{"anna@example.com"}
	if _, err := a.Set(c); err != nil {
		t.Fatal(err)
	}
	if _, port, err := net.SplitHostPort(address); err == nil && from == "the first byte" {
		a.targets[1].send = mailer{tlsPort: port}.send
	}
	return a
}

func TestMailIsSentOverTLS(t *testing.T) {
	for from, extensions := range map[string][]string{"the first byte": nil, "STARTTLS": {"250-STARTTLS"}} {
		t.Run(from, func(t *testing.T) {
			address, said := tlsMailServer(t, trusted.server(t, "127.0.0.1"), from, extensions...)
			results := mailTo(t, address, from).Test(t.Context())
			if len(results) != 1 || results[0] != (admin.AlertTest{Target: "email"}) {
				t.Fatalf("%+v, said:\n%s", results, said())
			}
			plain, _, _ := strings.Cut(said(), "STARTTLS\r\n")
			if from == "STARTTLS" && strings.Count(plain, "\r\n") != 1 {
				t.Errorf("before TLS the server heard more than a greeting:\n%s", plain)
			}
			for _, want := range []string{
				"AUTH PLAIN AGJveABtYWlsLXZlcnktc2VjcmV0\r\n", "RCPT TO:<anna@example.com>", "This is a test of the alerts.",
			} {
				if !strings.Contains(said(), want) {
					t.Errorf("the server did not hear %q:\n%s", want, said())
				}
			}
		})
	}
}

func TestMailIsNotSentToAServerWithAWrongCertificate(t *testing.T) {
	stranger, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	for wrong, secure := range map[string]*tls.Config{
		"of an unknown authority": stranger.server(t, "127.0.0.1"), "of another server": trusted.server(t, "127.0.0.2"),
	} {
		for from, extensions := range map[string][]string{"the first byte": nil, "STARTTLS": {"250-STARTTLS"}} {
			t.Run(wrong+"/"+from, func(t *testing.T) {
				address, said := tlsMailServer(t, secure, from, extensions...)
				results := mailTo(t, address, from).Test(t.Context())
				if len(results) != 1 || !strings.Contains(results[0].Error, "certificate") {
					t.Errorf("%+v", results)
				}
				if strings.Contains(said(), "AUTH") || strings.Contains(said(), "MAIL") {
					t.Errorf("said %s", said())
				}
			})
		}
	}
}
