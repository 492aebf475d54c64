package appliance

import (
	"errors"
	"net"
	"os"
	"path/filepath"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/apistatus"
	"github.com/edgewise-ai/edgewise/appliance/auth"
	"github.com/edgewise-ai/edgewise/appliance/config"
)

// TokenFile is the file in the data folder whose content lets programs of the same user on the same machine do everything.
// It is made at every start and removed at the end.
const TokenFile = "admin.token"

// openAccounts opens what belongs to the box, and the accounts in it.
func (a *App) openAccounts() error {
	a.box.documents = a.documents
	if err := a.box.load(); err != nil {
		return err
	}
	var err error
	a.accounts, err = auth.Open(auth.Config{Documents: a.documents, Log: a.logger.With("part", "auth"), Times: a.box.sessionTimes})
	return err
}

// writeToken makes the local token and leaves it where only the user of the box can read it.
func (a *App) writeToken() error {
	const op = "appliance.writeToken"
	path := filepath.Join(a.config.DataDir, TokenFile)
	f, err := os.CreateTemp(a.config.DataDir, TokenFile+"-*")
	if err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	_, err = f.WriteString(a.accounts.LocalToken() + "\n")
	if err = errors.Join(err, f.Chmod(0o600), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "%w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// removeToken ends what writeToken began. A token that is left behind opens nothing.
func (a *App) removeToken() {
	_ = os.Remove(filepath.Join(a.config.DataDir, TokenFile))
}

// Welcome is what a person at the console needs to know.
type Welcome struct {
	URLs        []string // of the page
	ClaimCode   string   // empty when the box is claimed, or accounts are off
	Fingerprint string   // of the certificate; empty without TLS
	Open        bool     // accounts are off
	Key         string   // an API key that was made at this start; empty otherwise
}

// recordCall writes a line to the audit log about a call at the gRPC door.
func (a *App) recordCall(who *edgewise.Principal, from, action, target string, failed error) {
	if host, _, err := net.SplitHostPort(from); err == nil {
		from = host
	}
	e := admin.AuditEntry{Actor: "open", Address: from, Action: action, Target: target}
	if who != nil {
		e.Actor = who.Actor()
	}
	if failed != nil {
		e.Error = apistatus.Message(failed)
	}
	if err := a.accounts.Record(e); err != nil {
		a.logger.Error("the audit log was not written", "action", action, "actor", e.Actor, "error", err)
	}
}

// openMode tells whether accounts are off.
func (a *App) openMode() bool { return a.config.Auth == config.AuthOpen }

// demoKey makes the API key of the demo, once: at the first start with the configuration's demo_key.
func (a *App) demoKey() (string, error) {
	if !a.config.DemoKey || a.openMode() || len(a.accounts.Keys()) > 0 {
		return "", nil
	}
	made, err := a.accounts.CreateKey(admin.KeyNew{Name: "demo", Rights: []string{"read", "infer"}}, &edgewise.Principal{Kind: "box", Rights: edgewise.AllRights})
	if err != nil {
		return "", err
	}
	return made.Secret, a.accounts.Record(admin.AuditEntry{Actor: "box", Action: "key.create", Target: made.Key.ID, Detail: "the demo's key, made at the first start"})
}
