package appliance

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/access"
	"github.com/edgewise-ai/edgewise/appliance/certificate"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/registry"
	"github.com/edgewise-ai/edgewise/host"
	"github.com/edgewise-ai/edgewise/store/documents"
)

// identityFolder is where the certificate stands in the data folder.
const identityFolder = "tls"

// keepEvery is the interval of keep.
const keepEvery = time.Minute

// openBox opens what the box is beside its models: documents, accounts, certificate.
func (a *App) openBox() error {
	var err error
	if a.documents, err = documents.Open(a.config.DataDir, documents.Options{Logger: a.logger.With("part", "store")}); err != nil {
		return err
	}
	a.box = &box{app: a, started: time.Now().UTC()}
	a.processors = host.NewLoad("/")
	a.notes, a.history = registry.NewNotes(a.documents), registry.NewHistory(a.documents, a.publish, a.names.Now, a.logger)
	if err := a.openAccounts(); err != nil {
		return err
	}
	if a.config.TLS.Mode == config.TLSOff {
		return nil
	}
	a.identity, err = certificate.Open(certificate.Config{
		Dir:   filepath.Join(a.config.DataDir, identityFolder),
		Names: func() []string { return certificate.Names(a.config.HTTP.AllowedHosts) }, Log: a.logger.With("part", "tls"),
	})
	return err
}

// closeBox stores what is in memory only and closes the files.
func (a *App) closeBox() error {
	if a.documents == nil {
		return nil
	}
	var err error
	if a.accounts != nil {
		a.offer.Close()
		err = a.accounts.Close()
	}
	return errors.Join(err, a.documents.Close())
}

// hosts are the names under which the box is known: those that are configured, and its own.
func hosts(c config.Config) []string {
	return append([]string{hostname(), hostname() + ".local"}, c.HTTP.AllowedHosts...)
}

// answeredHosts are the names under which clients may address the box: all of them where there are accounts, whose
// sessions a cookie of the box's own name and SameSite protect.
func answeredHosts(c config.Config) []string {
	if c.Auth == config.AuthAccounts {
		return []string{"*"}
	}
	return hosts(c)
}

// plain tells whether a peer may speak plain text.
func (a *App) plain(peer net.Addr) bool {
	return a.config.TLS.Mode == config.TLSAuto && certificate.Loopback(peer)
}

// sniffed tells TLS from plain text on a listener, unless TLS is off.
func (a *App) sniffed(ln net.Listener) net.Listener {
	if a.identity == nil {
		return ln
	}
	return certificate.Listener(ln, a.identity.Config("http/1.1"), a.plain)
}

// grpcTLS returns what the gRPC server speaks, nil when it has certificates of its own or TLS is off.
func (a *App) grpcTLS() (*tls.Config, func(net.Addr) bool) {
	if a.identity == nil || a.config.GRPC.TLSCertificate != "" {
		return nil, nil
	}
	return a.identity.Config("h2"), a.plain
}

// grpcAuthorize returns what the gRPC server asks who may call, nil when everybody may.
func (a *App) grpcAuthorize() func(secret string, peer net.Addr) (*edgewise.Principal, func(), error) {
	if a.openMode() {
		return nil
	}
	return func(secret string, peer net.Addr) (*edgewise.Principal, func(), error) {
		return a.accounts.Bearer(secret, certificate.Loopback(peer))
	}
}

// scheme is how the box speaks to itself.
func (a *App) scheme() string {
	if a.config.TLS.Mode == config.TLSRequire {
		return "https://"
	}
	return "http://"
}

// ownTransport speaks to the box itself, whatever its certificate.
func (a *App) ownTransport() *http.Transport {
	if a.config.TLS.Mode != config.TLSRequire {
		return &http.Transport{}
	}
	return &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // it is this process; nothing secret is sent
}

// welcome gives programs on this machine access, and tells the person at the console how to begin.
func (a *App) welcome(d *listeners, hooks Hooks) error {
	if d.rest == nil {
		return nil // no page, and no client
	}
	w := Welcome{URLs: a.urls(d.rest.Addr()), Open: a.openMode()}
	a.box.mu.Lock()
	a.box.urls = w.URLs
	if d.grpc != nil {
		a.box.grpcAt = d.grpc.Addr().String()
	}
	a.box.mu.Unlock()
	if a.identity != nil {
		w.Fingerprint = a.identity.Describe().Fingerprint
	}
	var err error
	if !w.Open {
		w.ClaimCode = a.accounts.ClaimCode()
		var made error
		w.Key, made = a.demoKey()
		authority := ""
		if a.identity != nil {
			authority = a.identity.AuthorityPath()
		}
		a.offer, err = access.Open(a.config.DataDir, a.accounts.LocalToken(), authority, d.rest.Addr())
		err = errors.Join(err, made)
	}
	if w.ClaimCode != "" {
		a.logger.Info("nobody has claimed this box: open its page and enter the claim code", "page", w.URLs[0], "code", w.ClaimCode)
	}
	if hooks.Welcome != nil {
		hooks.Welcome(w)
	}
	return err
}

// urls lists where the page can be opened, the shortest way first.
func (a *App) urls(address net.Addr) []string {
	host, port, err := net.SplitHostPort(address.String())
	ip := net.ParseIP(host)
	one := err != nil || ip == nil || !ip.IsUnspecified()
	scheme := "https"
	if a.identity == nil || one && a.plain(address) {
		scheme = "http"
	}
	if one {
		return []string{fmt.Sprintf("%s://%s", scheme, address)}
	}
	var list []string
	for _, name := range certificate.Names(nil) {
		list = append(list, fmt.Sprintf("%s://%s", scheme, net.JoinHostPort(name, port)))
	}
	return list
}

// keep renews certificates and removes what has expired, until ctx ends.
func (a *App) keep(ctx context.Context) {
	ticker := time.NewTicker(keepEvery)
	defer ticker.Stop()
	for {
		a.sweepSteps()
		a.hardware.Sweep(a.storedVersions)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if a.identity != nil {
			a.identity.Keep()
		}
		a.importer.Sweep()
	}
}

// modelChanged tells those who listen that something about a model has changed, and forgets what was written about what is
// deleted.
func (a *App) modelChanged(id edgewise.ModelID, what string) {
	if what == "stored" || what == "deleted" {
		a.monitor.Learn(a.registry.Records())
	}
	if what == "deleted" {
		if id.Version == 0 {
			a.rollouts.Forget(id.Name)
		}
		err := errors.Join(
			a.notes.Forget(id), registry.NewFindings(a.documents).Forget(id), registry.NewFootprints(a.documents).Forget(id), a.goldens.Forget(id),
			a.tuner.Forget(id),
		)
		if err != nil {
			a.logger.Error("removing the notes and goldens of what was deleted", "model", id.String(), "error", err)
		}
	}
	if what == "deleted" && id.Version == 0 {
		if err := a.recordings.Delete(id.Name); err != nil {
			a.logger.Error("removing the recorded requests of a model that was deleted", "model", id.Name, "error", err)
		}
	}
	a.publish("model", admin.ModelEvent{Model: id.Name, Version: id.Version, What: what})
}

// publish tells those who listen what has happened.
func (a *App) publish(topic string, data any) { a.monitor.Hub.Publish(topic, data) }
