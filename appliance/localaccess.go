package appliance

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// LocalAccess is how programs of the same user on the same machine speak to a box without being told.
type LocalAccess struct {
	Token     string // the local token; empty: there is none
	Authority string // file with the certificate of the box's authority; empty: there is none
}

// pointer is the file that says where a box's files are. It holds no secret.
type pointer struct {
	Token     string `json:"token_file"`
	Authority string `json:"authority_file,omitempty"`
}

// pointerPath is where a box that listens on a port tells its user so. Errors: the user has no folder for such files.
func pointerPath(port string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "edgewise", "boxes", port+".json"), nil
}

// LocalAccessTo finds how to speak to the box that listens on a port of this machine. What is not found is empty.
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

// leavePointer tells programs of the same user where the box's files are. A user without a folder for that is told by
// nobody and gives --token.
func (a *App) leavePointer(address net.Addr) error {
	const op = "appliance.leavePointer"
	_, port, err := net.SplitHostPort(address.String())
	if err != nil {
		return nil
	}
	path, err := pointerPath(port)
	if err != nil {
		a.logger.Debug("the command line is not told where the local token is", "error", err)
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

// removePointer ends what leavePointer began, unless another box has taken the port since.
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
