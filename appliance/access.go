package appliance

import (
	"net"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/apistatus"
	"github.com/edgewise-ai/edgewise/appliance/auth"
	"github.com/edgewise-ai/edgewise/appliance/config"
)

// openAccounts reads the settings of the box and opens the accounts.
func (a *App) openAccounts() error {
	a.box.documents = a.documents
	if err := a.box.load(); err != nil {
		return err
	}
	var err error
	a.accounts, err = auth.Open(auth.Config{
		Documents: a.documents, Log: a.logger.With("part", "auth"), Times: a.box.sessionTimes,
	})
	return err
}

// Welcome is what a person at the console needs to know.
type Welcome struct {
	URLs        []string // of the page
	ClaimCode   string   // empty when the box is claimed, or accounts are off
	Fingerprint string   // of the certificate; empty without TLS
	Open        bool     // accounts are off
	Key         string   // an API key that was made at this start; empty otherwise
}

// recordCall writes a line to the audit log about a gRPC call.
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
	made, err := a.accounts.CreateKey(admin.KeyNew{Name: "demo", Rights: []string{"read", "infer"}},
		&edgewise.Principal{Kind: "box", Rights: edgewise.AllRights})
	if err != nil {
		return "", err
	}
	return made.Secret, a.accounts.Record(admin.AuditEntry{
		Actor: "box", Action: "key.create", Target: made.Key.ID,
		Detail: "the demo's key, made at the first start",
	})
}
