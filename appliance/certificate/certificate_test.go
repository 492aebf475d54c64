package certificate

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

func open(t *testing.T, dir string, names ...string) *Identity {
	t.Helper()
	i, err := Open(Config{Dir: dir, Names: func() []string { return names }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// pemOf returns a certificate and key of an authority of its own.
func pemOf(t *testing.T, names ...string) admin.TLSUpload {
	t.Helper()
	a, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	a.Certificate = nil // not in the chain
	c, err := issue(a, names)
	if err != nil {
		t.Fatal(err)
	}
	key, err := keyText(c)
	if err != nil {
		t.Fatal(err)
	}
	return admin.TLSUpload{Certificate: string(chainText(c)), Key: string(key)}
}

// shown connects and returns the certificate that a client is shown.
func shown(t *testing.T, address string, i *Identity, name string) *x509.Certificate {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(i.Authority())
	c, err := tls.Dial("tcp", address, &tls.Config{RootCAs: pool, ServerName: name})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	return c.ConnectionState().PeerCertificates[0]
}

// serve answers with the request's host over what Listener makes of a port.
func serve(t *testing.T, i *Identity, plain func(net.Addr) bool) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(Listener(ln, i.Config("http/1.1"), plain)) }()
	t.Cleanup(func() { _ = server.Close() })
	return ln.Addr().String()
}

func never(net.Addr) bool { return false }

func TestTheBoxIsRecognisedByItsAuthority(t *testing.T) {
	dir := t.TempDir()
	i := open(t, dir, "box.local", "127.0.0.1")
	address := serve(t, i, never)
	for _, name := range []string{"box.local", "127.0.0.1"} {
		c := shown(t, address, i, name)
		if time.Until(c.NotAfter) > 398*24*time.Hour || fingerprint(c) != i.Describe().Fingerprint {
			t.Errorf("%v, %s", c.NotAfter, fingerprint(c))
		}
	}
	again := open(t, dir, "box.local")
	if again.Describe().Fingerprint != i.Describe().Fingerprint {
		t.Error("a restart makes another certificate")
	}
	more := open(t, dir, "box.local", "192.0.2.7")
	if d := more.Describe(); d.Fingerprint == i.Describe().Fingerprint ||
		d.AuthorityFingerprint != i.Describe().AuthorityFingerprint || !slices.Contains(d.Names, "192.0.2.7") {
		t.Errorf("a new address: %+v", d)
	}
	for _, name := range []string{authorityKeyFile, ownKeyFile} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

func TestAnUploadedCertificateIsShownAtOnce(t *testing.T) {
	dir := t.TempDir()
	i := open(t, dir, "box.local")
	address := serve(t, i, never)
	u := pemOf(t, "box.example")
	if err := i.Upload(u); err != nil {
		t.Fatal(err)
	}
	c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if got := names(c.ConnectionState().PeerCertificates[0]); !slices.Equal(got, []string{"box.example"}) {
		t.Errorf("shown: %v", got)
	}
	if d := open(t, dir, "box.local").Describe(); d.Mode != ModeUploaded {
		t.Errorf("after a restart: %+v", d)
	}
	if err := i.Reset(); err != nil {
		t.Fatal(err)
	}
	if got := names(shown(t, address, i, "box.local")); !slices.Equal(got, []string{"box.local"}) ||
		open(t, dir, "box.local").Describe().Mode != ModeSelfSigned {
		t.Errorf("after the reset: %v", got)
	}
}

func TestCertificatesThatAreRefused(t *testing.T) {
	good, other := pemOf(t, "box.example"), pemOf(t, "box.example")
	for name, u := range map[string]admin.TLSUpload{
		"nothing":     {},
		"no PEM":      {Certificate: "x", Key: good.Key},
		"no key":      {Certificate: good.Certificate},
		"another key": {Certificate: good.Certificate, Key: other.Key},
		"for no name": pemOf(t),
	} {
		t.Run(name, func(t *testing.T) {
			i := open(t, t.TempDir(), "box.local")
			before := i.Describe()
			err := i.Upload(u)
			if err == nil || edgewise.KindOf(err) != edgewise.Invalid || i.Describe().Fingerprint != before.Fingerprint {
				t.Errorf("%v, %+v", err, i.Describe())
			}
		})
	}
}

func TestADamagedUploadLeavesTheBoxReachable(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, "box.local")
	for _, name := range []string{uploadedFile, uploadedKeyFile} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if d := open(t, dir, "box.local").Describe(); d.Mode != ModeSelfSigned {
		t.Errorf("%+v", d)
	}
}

func TestPlainTextIsLedToTLS(t *testing.T) {
	address := serve(t, open(t, t.TempDir(), "box.local"), never)
	for name, test := range map[string]struct{ send, want string }{
		"a page": {
			"GET /models?x=1 HTTP/1.1\r\nHost: box.local:8000\r\n\r\n",
			"308 Permanent Redirect\r\nConnection: close\r\nContent-Type: application/json\r\nLocation: https://box.local:8000/models?x=1\r\n",
		},
		"a POST":           {"POST /v2 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", "308 "},
		"no host":          {"GET / HTTP/1.0\r\n\r\n", "400 "},
		"no request":       {"hello\r\n\r\n", "400 "},
		"another site":     {"GET //evil.example/ HTTP/1.1\r\nHost: box\r\n\r\n", "400 "},
		"a host with more": {"GET / HTTP/1.1\r\nHost: evil.example/@box\r\n\r\n", "400 "},
		"endless":          {"GET /" + strings.Repeat("x", 2*maxPlainHead), "400 "},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			go func() { _, _ = io.WriteString(c, test.send) }()
			_ = c.SetDeadline(time.Now().Add(30 * time.Second))
			got, _ := io.ReadAll(bufio.NewReader(c))
			if !strings.HasPrefix(string(got), "HTTP/1.1 "+test.want) {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestPlainTextIsTakenFromThoseWhoMay(t *testing.T) {
	i := open(t, t.TempDir(), "127.0.0.1")
	address := serve(t, i, Loopback)
	body := strings.Repeat("0123456789", 100_000)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(i.Authority())
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	for _, scheme := range []string{"http://", "https://"} {
		res, err := client.Post(scheme+address, "text/plain", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || string(got) != body {
			t.Errorf("%s: %d bytes, %v", scheme, len(got), err)
		}
	}
	for address, want := range map[string]bool{
		"127.0.0.1:1": true, "[::1]:1": true, "[::ffff:127.0.0.1]:1": true,
		"192.0.2.1:1": false,
	} {
		tcp, err := net.ResolveTCPAddr("tcp", address)
		if err != nil || Loopback(tcp) != want {
			t.Errorf("%s: %v, %v", address, Loopback(tcp), err)
		}
	}
}

// TestAMachineMayBeCalledAnything has names that a certificate cannot have.
func TestAMachineMayBeCalledAnything(t *testing.T) {
	i := open(t, t.TempDir(), "küche", "a name", "", "edge.local", "192.0.2.1")
	d := i.Describe()
	if !slices.Equal(d.Names, []string{"edge.local", "192.0.2.1"}) {
		t.Errorf("names %v", d.Names)
	}
	if i.Keep(); i.Describe().Fingerprint != d.Fingerprint {
		t.Error("it is made again each time")
	}
}

// TestAnUploadIsReplacedInOneStep stands in for a power cut at every step of an upload: no file of the second one can
// be put into its place but the first that would be.
func TestAnUploadIsReplacedInOneStep(t *testing.T) {
	dir := t.TempDir()
	i := open(t, dir, "box.local")
	first, second := pemOf(t, "first.example"), pemOf(t, "second.example")
	if err := i.Upload(first); err != nil {
		t.Fatal(err)
	}
	before := files(t, dir)
	if err := i.Upload(second); err != nil {
		t.Fatal(err)
	}
	changed := 0
	for name, text := range files(t, dir) {
		if text == before[name] {
			continue
		}
		changed++
		cut := t.TempDir()
		for other, old := range before {
			write(t, cut, other, old)
		}
		write(t, cut, name, text)
		if d := open(t, cut, "box.local").Describe(); d.Mode != ModeUploaded {
			t.Errorf("after a power cut behind %s: %s %v", name, d.Mode, d.Names)
		}
	}
	if changed == 0 {
		t.Error("the second upload changed no file")
	}
}

func TestAnUploadWhoseKeyIsAFileOfItsOwnIsRead(t *testing.T) {
	dir := t.TempDir()
	u := pemOf(t, "old.example")
	write(t, dir, uploadedFile, u.Certificate)
	write(t, dir, uploadedKeyFile, u.Key)
	i := open(t, dir, "box.local")
	if d := i.Describe(); d.Mode != ModeUploaded || !slices.Equal(d.Names, []string{"old.example"}) {
		t.Fatalf("%s %v", d.Mode, d.Names)
	}
	if err := i.Upload(pemOf(t, "new.example")); err != nil {
		t.Fatal(err)
	}
	if _, old := files(t, dir)[uploadedKeyFile]; old {
		t.Error("the key of the old certificate is still there")
	}
	if d := open(t, dir, "box.local").Describe(); !slices.Equal(d.Names, []string{"new.example"}) {
		t.Errorf("after a restart: %s %v", d.Mode, d.Names)
	}
}

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, f := range list {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[f.Name()] = string(text)
	}
	return all
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), fileMode); err != nil {
		t.Fatal(err)
	}
}
