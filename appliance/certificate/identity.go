package certificate

import (
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
	uploadedKeyFile  = "uploaded-key.pem" // written by earlier versions, whose uploadedFile has no key

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
	authority *tls.Certificate // of the box itself

	mu      sync.Mutex // held while the certificate is changed
	current atomic.Pointer[chosen]
}

// chosen is the certificate that is shown to clients.
type chosen struct {
	*tls.Certificate
	uploaded bool
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

func (i *Identity) readAuthority() (*tls.Certificate, error) {
	authority, err := i.read(authorityFile, authorityKeyFile)
	if !errors.Is(err, fs.ErrNotExist) {
		return authority, err
	}
	if authority, err = newAuthority(); err != nil {
		return nil, err
	}
	return authority, i.write(authorityFile, authorityKeyFile, authority)
}

// load reads the uploaded certificate, else the box's own. i.mu is held.
func (i *Identity) load() error {
	c, err := i.read(uploadedFile, uploadedFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c, err = i.read(uploadedFile, uploadedKeyFile)
	}
	if err == nil {
		i.current.Store(&chosen{c, true})
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		i.cfg.Log.Error("the uploaded certificate cannot be read: the box's own is used", "error", err)
	}
	if c, err = i.read(ownFile, ownKeyFile); err != nil || i.stale(c.Leaf) {
		return i.renew()
	}
	i.current.Store(&chosen{c, false})
	return nil
}

// stale tells whether the box's own certificate is to be made again.
func (i *Identity) stale(own *x509.Certificate) bool {
	if time.Until(own.NotAfter) < renewBefore || own.CheckSignatureFrom(i.authority.Leaf) != nil {
		return true
	}
	have := names(own)
	return slices.ContainsFunc(i.names(), func(name string) bool { return !slices.Contains(have, name) })
}

// names lists what the box's own certificate is for: those of its names that a certificate can have. A machine may be
// called anything.
func (i *Identity) names() []string {
	return slices.DeleteFunc(slices.Clone(i.cfg.Names()), func(name string) bool { return name == "" || !visible(name) })
}

// renew makes a certificate of the box's own authority. i.mu is held.
func (i *Identity) renew() error {
	own, err := issue(i.authority, i.names())
	if err == nil {
		err = i.write(ownFile, ownKeyFile, own)
	}
	if err != nil {
		return edgewise.Errorf("certificate.renew", edgewise.Internal, "%w", err)
	}
	i.current.Store(&chosen{own, false})
	return nil
}

// Keep renews the box's own certificate in time, and when the box has got other names. It is called now and then.
func (i *Identity) Keep() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if c := i.current.Load(); c.uploaded || !i.stale(c.Leaf) {
		return
	}
	if err := i.renew(); err != nil {
		i.cfg.Log.Error("the box's certificate was not renewed", "error", err)
	}
}

// Upload uses another certificate, of PEM texts. New connections get it at once. Errors: Invalid with Field.
func (i *Identity) Upload(u admin.TLSUpload) error {
	const op = "certificate.Upload"
	c, err := tls.X509KeyPair([]byte(u.Certificate), []byte(u.Key))
	if err != nil {
		return invalid(op, "certificate", "certificate and key: %w", err)
	}
	switch now := time.Now(); {
	case now.After(c.Leaf.NotAfter):
		return invalid(op, "certificate", "the certificate has expired at %v", c.Leaf.NotAfter)
	case now.Before(c.Leaf.NotBefore):
		return invalid(op, "certificate", "the certificate holds from %v on only", c.Leaf.NotBefore)
	case len(names(c.Leaf)) == 0:
		return invalid(op, "certificate", "the certificate is for no host name: browsers want a subject alternative name")
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	key, err := keyText(&c)
	if err == nil {
		err = replace(i.path(uploadedFile), append(chainText(&c), key...))
	}
	if err == nil {
		err = i.remove(uploadedKeyFile)
	}
	if err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	i.current.Store(&chosen{&c, true})
	return nil
}

func invalid(op, field, format string, args ...any) error {
	return edgewise.Errorf(op, edgewise.Invalid, format, args...).WithField(field)
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
			return i.current.Load().Certificate, nil
		},
	}
}

// Authority returns the certificate of the box's own authority, as PEM.
func (i *Identity) Authority() []byte { return chainText(i.authority) }

// AuthorityPath returns the file of that certificate.
func (i *Identity) AuthorityPath() string { return i.path(authorityFile) }

// Describe says what clients are shown.
func (i *Identity) Describe() admin.TLS {
	current := i.current.Load()
	c := current.Leaf
	d := admin.TLS{
		Mode: ModeSelfSigned, Fingerprint: fingerprint(c), AuthorityFingerprint: fingerprint(i.authority.Leaf),
		Subject: c.Subject.String(), Issuer: c.Issuer.String(),
		Names: names(c), NotBefore: c.NotBefore.UTC(), NotAfter: c.NotAfter.UTC(),
	}
	if current.uploaded {
		d.Mode = ModeUploaded
	}
	return d
}

// fingerprint is the SHA-256 of a certificate as browsers show it.
func fingerprint(c *x509.Certificate) string {
	return strings.ReplaceAll(fmt.Sprintf("% X", sha256.Sum256(c.Raw)), " ", ":")
}

// names lists what a certificate is for.
func names(c *x509.Certificate) []string {
	list := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		list = append(list, ip.String())
	}
	return list
}

// read reads a certificate and its key. Errors: fs.ErrNotExist, and those of a file that holds something else.
func (i *Identity) read(file, keyFile string) (*tls.Certificate, error) {
	c, err := tls.LoadX509KeyPair(i.path(file), i.path(keyFile))
	return &c, err
}

// write stores a certificate and its key, the key first: a certificate never stands without its key.
func (i *Identity) write(file, keyFile string, c *tls.Certificate) error {
	key, err := keyText(c)
	if err != nil {
		return err
	}
	if err := replace(i.path(keyFile), key); err != nil {
		return err
	}
	return replace(i.path(file), chainText(c))
}

// keyText is the key of a certificate as PEM.
func keyText(c *tls.Certificate) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}

// chainText is a certificate with those that lead to its authority, as PEM.
func chainText(c *tls.Certificate) (text []byte) {
	for _, der := range c.Certificate {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return text
}

// remove deletes a file, if it exists.
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
