package certificate

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// The files below the folder of the identity. Those of the owner stand in front of the box's own.
const (
	authorityFile    = "authority.pem"
	authorityKeyFile = "authority-key.pem"
	ownFile          = "certificate.pem"
	ownKeyFile       = "key.pem"
	uploadedFile     = "uploaded.pem"     // with its key behind it, so that both are replaced in one step
	uploadedKeyFile  = "uploaded-key.pem" // of boxes that kept it by itself; where it is there, uploadedFile may have none

	folderMode = 0o700
	fileMode   = 0o600
)

// The values of admin.TLS.Mode.
const (
	ModeOff        = "off"
	ModeSelfSigned = "self_signed"
	ModeUploaded   = "uploaded"
)

// Config is what Identity needs.
type Config struct {
	Dir   string          // of the files; made when it is not there
	Names func() []string // host names and addresses that the box's own certificate is for
	Log   *slog.Logger
}

// Identity is the box's certificate. It is safe for concurrent use.
type Identity struct {
	cfg       Config
	authority *pair // of the box itself

	mu      sync.Mutex // held while the certificate is changed
	current atomic.Pointer[leaf]
}

// leaf is the certificate that is shown to clients.
type leaf struct {
	certificate tls.Certificate
	parsed      *x509.Certificate
	uploaded    bool
}

// pair is a certificate and its key.
type pair struct {
	parsed *x509.Certificate
	pem    []byte
	key    crypto.Signer
}

// Open reads the identity, making what is missing. Errors: Invalid (a file that is no certificate), Internal.
func Open(cfg Config) (*Identity, error) {
	const op = "certificate.Open"
	i := &Identity{cfg: cfg}
	if err := os.MkdirAll(cfg.Dir, folderMode); err != nil {
		return nil, edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	var err error
	if i.authority, err = i.readAuthority(); err != nil {
		return nil, edgewise.Errorf(op, edgewise.Internal, "the box's own authority: %w", err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i, i.load()
}

func (i *Identity) path(name string) string { return filepath.Join(i.cfg.Dir, name) }

func (i *Identity) readAuthority() (*pair, error) {
	p, err := readPair(i.path(authorityFile), i.path(authorityKeyFile))
	if !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}
	p, err = newAuthority()
	if err != nil {
		return nil, err
	}
	return p, i.write(authorityFile, p.pem, authorityKeyFile, p)
}

// load takes the uploaded certificate, else the box's own. i.mu is held.
func (i *Identity) load() error {
	l, err := readLeaf(i.path(uploadedFile), i.path(uploadedFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l, err = readLeaf(i.path(uploadedFile), i.path(uploadedKeyFile))
	}
	if err == nil {
		l.uploaded = true
		i.current.Store(l)
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		i.cfg.Log.Error("the uploaded certificate cannot be read: the box's own is used", "error", err)
	}
	if l, err = readLeaf(i.path(ownFile), i.path(ownKeyFile)); err != nil || i.stale(l) {
		return i.renew()
	}
	i.current.Store(l)
	return nil
}

// stale tells whether the box's own certificate is to be made again.
func (i *Identity) stale(l *leaf) bool {
	if time.Until(l.parsed.NotAfter) < renewBefore || l.parsed.CheckSignatureFrom(i.authority.parsed) != nil {
		return true
	}
	have := names(l.parsed)
	return slices.ContainsFunc(i.names(), func(name string) bool { return !slices.Contains(have, name) })
}

// names lists what the box's own certificate is for: those of its names that a certificate can have. A machine may be
// called anything.
func (i *Identity) names() []string {
	return slices.DeleteFunc(slices.Clone(i.cfg.Names()), func(name string) bool { return name == "" || !visible(name) })
}

// renew makes a certificate of the box's own authority. i.mu is held.
func (i *Identity) renew() error {
	p, err := i.authority.issue(i.names())
	if err != nil {
		return edgewise.Errorf("certificate.renew", edgewise.Internal, "%w", err)
	}
	chain := append(slices.Clone(p.pem), i.authority.pem...)
	if err := i.write(ownFile, chain, ownKeyFile, p); err != nil {
		return edgewise.Errorf("certificate.renew", edgewise.Internal, "%w", err)
	}
	l, err := readLeaf(i.path(ownFile), i.path(ownKeyFile))
	if err != nil {
		return edgewise.Errorf("certificate.renew", edgewise.Internal, "%w", err)
	}
	i.current.Store(l)
	return nil
}

// Keep renews the box's own certificate in time, and when the box has got other names. It is called now and then.
func (i *Identity) Keep() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if l := i.current.Load(); l.uploaded || !i.stale(l) {
		return
	}
	if err := i.renew(); err != nil {
		i.cfg.Log.Error("the box's certificate was not renewed", "error", err)
	}
}

// Upload uses another certificate, of PEM texts. New connections get it at once. Errors: Invalid with Field.
func (i *Identity) Upload(u admin.TLSUpload) error {
	const op = "certificate.Upload"
	l, err := newLeaf([]byte(u.Certificate), []byte(u.Key))
	if err != nil {
		return invalid(op, "certificate", "certificate and key: %w", err)
	}
	switch now := time.Now(); {
	case now.After(l.parsed.NotAfter):
		return invalid(op, "certificate", "the certificate has expired at %v", l.parsed.NotAfter)
	case now.Before(l.parsed.NotBefore):
		return invalid(op, "certificate", "the certificate holds from %v on only", l.parsed.NotBefore)
	case len(names(l.parsed)) == 0:
		return invalid(op, "certificate", "the certificate is for no host name: browsers want a subject alternative name")
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	text, err := l.text()
	if err == nil {
		err = replace(i.path(uploadedFile), text)
	}
	if err == nil {
		err = i.remove(uploadedKeyFile)
	}
	if err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	l.uploaded = true
	i.current.Store(l)
	return nil
}

func invalid(op, field, format string, args ...any) error {
	err := edgewise.Errorf(op, edgewise.Invalid, format, args...)
	err.Field = field
	return err
}

// Reset goes back to the box's own certificate, made again.
func (i *Identity) Reset() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, name := range []string{uploadedFile, uploadedKeyFile} {
		if err := i.remove(name); err != nil {
			return edgewise.Errorf("certificate.Reset", edgewise.Internal, "%w", err)
		}
	}
	return i.renew()
}

// Config returns the settings for a server. They follow every change of the certificate.
func (i *Identity) Config(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &i.current.Load().certificate, nil
		},
	}
}

// Authority returns the certificate of the box's own authority, as PEM.
func (i *Identity) Authority() []byte { return i.authority.pem }

// AuthorityPath returns the file of that certificate.
func (i *Identity) AuthorityPath() string { return i.path(authorityFile) }

// Describe says what clients are shown.
func (i *Identity) Describe() admin.TLS {
	l := i.current.Load()
	d := admin.TLS{
		Mode: ModeSelfSigned, Fingerprint: fingerprint(l.parsed), AuthorityFingerprint: fingerprint(i.authority.parsed),
		Subject: l.parsed.Subject.String(), Issuer: l.parsed.Issuer.String(),
		Names: names(l.parsed), NotBefore: l.parsed.NotBefore.UTC(), NotAfter: l.parsed.NotAfter.UTC(),
	}
	if l.uploaded {
		d.Mode = ModeUploaded
	}
	return d
}

// fingerprint is the SHA-256 of a certificate as browsers show it.
func fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	parts := make([]string, len(sum))
	for i, b := range sum {
		parts[i] = fmt.Sprintf("%02X", b)
	}
	return strings.Join(parts, ":")
}

// names lists what a certificate is for.
func names(c *x509.Certificate) []string {
	list := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		list = append(list, ip.String())
	}
	return list
}

// write stores a certificate and its key, the key first: a certificate never stands without its key.
func (i *Identity) write(file string, text []byte, keyFile string, p *pair) error {
	key, err := keyText(p.key)
	if err != nil {
		return err
	}
	if err := replace(i.path(keyFile), key); err != nil {
		return err
	}
	return replace(i.path(file), text)
}

func keyText(key crypto.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}

// text is the chain of the certificate and its key, as one file.
func (l *leaf) text() ([]byte, error) {
	var all []byte
	for _, der := range l.certificate.Certificate {
		all = append(all, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	key, err := keyText(l.certificate.PrivateKey)
	return append(all, key...), err
}

// remove takes a file away, if it is there.
func (i *Identity) remove(name string) error {
	if err := os.Remove(i.path(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// replace writes a file in one step: whatever happens, the old text or the new one is there.
func replace(path string, text []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(fileMode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func readLeaf(file, keyFile string) (*leaf, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, err
	}
	return newLeaf(text, key)
}

func newLeaf(text, key []byte) (*leaf, error) {
	c, err := tls.X509KeyPair(text, key)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(c.Certificate[0])
	if err != nil {
		return nil, err
	}
	c.Leaf = parsed
	return &leaf{certificate: c, parsed: parsed}, nil
}

func readPair(file, keyFile string) (*pair, error) {
	l, err := readLeaf(file, keyFile)
	if err != nil {
		return nil, err
	}
	key, ok := l.certificate.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, errors.New("the key cannot sign")
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: l.certificate.Certificate[0]})
	return &pair{parsed: l.parsed, pem: bytes.TrimSpace(text), key: key}, nil
}
