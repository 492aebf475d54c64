package appliance

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/apistatus"
	"github.com/edgewise-ai/edgewise/appliance/auth"
	"github.com/edgewise-ai/edgewise/appliance/config"
)

// TokenFile is the file in the data folder with the local token, which gives programs of the same user on the same
// machine all rights. It is made at every start and removed at the end.
const TokenFile = "admin.token"

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

// writeToken makes the local token and writes it to a file that only the user of the box can read.
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

// LocalAccess is how programs of the same user on the same machine find their access to a box.
type LocalAccess struct {
	Token     string // the local token; empty: there is none
	Authority string // file with the box's CA certificate; empty: there is none
}

// pointer is the file that says where a box's files are. It holds no secret.
type pointer struct {
	Token     string `json:"token_file"`
	Authority string `json:"authority_file,omitempty"`
}

// pointerPath returns the path of the pointer of a box that listens on a port. Error: the user has no cache folder.
func pointerPath(port string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "edgewise", "boxes", port+".json"), nil
}

// LocalAccessTo returns the access to the box that listens on a port of this machine. What is not found is empty.
func LocalAccessTo(port string) (access LocalAccess) {
	path, err := pointerPath(port)
	if err != nil {
		return access
	}
	text, err := os.ReadFile(path)
	var p pointer
	if err != nil || json.Unmarshal(text, &p) != nil {
		return access
	}
	if token, err := os.ReadFile(p.Token); err == nil {
		access.Token = strings.TrimSpace(string(token))
	}
	if _, err := os.Stat(p.Authority); err == nil {
		access.Authority = p.Authority
	}
	return access
}

// writePointer tells programs of the same user where the box's files are. Users without a cache folder give --token
// instead.
func (a *App) writePointer(address net.Addr) error {
	const op = "appliance.writePointer"
	_, port, err := net.SplitHostPort(address.String())
	if err != nil {
		return nil
	}
	path, err := pointerPath(port)
	if err != nil {
		a.logger.Debug("the command line does not find the local token", "error", err)
		return nil
	}
	p := pointer{Token: filepath.Join(a.config.DataDir, TokenFile)}
	if a.identity != nil {
		p.Authority = a.identity.AuthorityPath()
	}
	text, err := json.Marshal(p)
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, text, 0o600))
	}
	if err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	a.pointer = path
	return nil
}

// removePointer removes the file of writePointer, unless another box has the port by now.
func (a *App) removePointer() {
	if a.pointer == "" {
		return
	}
	text, err := os.ReadFile(a.pointer)
	var p pointer
	if err == nil && json.Unmarshal(text, &p) == nil && p.Token == filepath.Join(a.config.DataDir, TokenFile) {
		_ = os.Remove(a.pointer)
	}
}
