// Package access lets programs of the same user on the same machine reach a box without an API key: the box leaves its
// local token in a file that only its user can read, and says by its port where that file is.
package access

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// TokenFile is the file in the data folder with the local token, which gives programs of the same user on the same
// machine all rights. It is made at every start and removed at the end.
const TokenFile = "admin.token"

// Offer is what a running box has left for others to find. The zero value is nothing.
type Offer struct {
	token   string // path of the token's file
	pointer string // path of the file that names it; empty: there is none
}

// Open writes the token into a file of the data folder that only the user of the box can read, and the file that tells
// programs of the same user where it and the CA certificate are (authority, empty without TLS). A user without a cache
// folder gets the first only: they give --token instead. Error: Internal, when a file cannot be written; what was
// written before stays, and Close removes it.
func Open(dataDir, token, authority string, address net.Addr) (o Offer, err error) {
	o.token = filepath.Join(dataDir, TokenFile)
	if err := writeToken(o.token, token); err != nil {
		return o, err
	}
	_, port, err := net.SplitHostPort(address.String())
	if err != nil {
		return o, nil
	}
	path, err := pointerPath(port)
	if err != nil {
		return o, nil
	}
	text, err := json.Marshal(pointer{Token: o.token, Authority: authority})
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, text, 0o600))
	}
	if err != nil {
		return o, edgewise.Errorf("access.Open", edgewise.Internal, "%w", err)
	}
	o.pointer = path
	return o, nil
}

// Close removes the files, but not those of another box that has the port by now. A token's file that is left behind is
// harmless: each start makes another token.
func (o Offer) Close() {
	if o.token != "" {
		_ = os.Remove(o.token)
	}
	if p, err := readPointer(o.pointer); err == nil && p.Token == o.token {
		_ = os.Remove(o.pointer)
	}
}

// Local is the access to a box on this machine.
type Local struct {
	Token     string // the local token; empty: there is none
	Authority string // file with the box's CA certificate; empty: there is none
}

// To returns the access to the box that listens on a port of this machine. What is not found is empty.
func To(port string) (l Local) {
	path, err := pointerPath(port)
	if err != nil {
		return l
	}
	p, err := readPointer(path)
	if err != nil {
		return l
	}
	if token, err := os.ReadFile(p.Token); err == nil {
		l.Token = strings.TrimSpace(string(token))
	}
	if _, err := os.Stat(p.Authority); err == nil {
		l.Authority = p.Authority
	}
	return l
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

func readPointer(path string) (p pointer, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(text, &p)
}

// writeToken replaces the file as a whole: nobody reads half a token.
func writeToken(path, token string) error {
	const op = "access.Open"
	f, err := os.CreateTemp(filepath.Dir(path), TokenFile+"-*")
	if err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	_, err = f.WriteString(token + "\n")
	if err = errors.Join(err, f.Chmod(0o600), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "%w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}
