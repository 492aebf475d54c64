// Package uploads receives files that arrive in pieces, over days and restarts if need be, and unpacks archives of
// them.
//
// A piece counts once it is on disk: the offset and the state of the running SHA-256 are stored behind the bytes that
// they are about. After a crash the bytes behind the last stored offset are cut off, and the sender goes on from there.
package uploads

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// Bounds of uploads.
const (
	MaxPerOwner = 2              // unfinished, of one person or key
	MaxTotal    = 8              // unfinished, of everybody
	Expiry      = 24 * time.Hour // after the last byte, for unfinished and staged ones
	MaxName     = 255            // bytes of a file name

	folderMode = 0o750
	fileMode   = 0o640
	dataFile   = "data"
	stateFile  = "state.json"
)

// Config is what Uploads needs.
type Config struct {
	Dir      string                 // of the uploads; made when it is not there
	Formats  edgewise.Formats       // of which model files are accepted, beside archives
	MaxBytes int64                  // of one file
	Room     func(size int64) error // tells whether so many bytes more may be written. Errors: Exhausted
	Log      *slog.Logger
	Finished func(f File) // called once a file is whole, and at the start for those that are
}

// File is an upload as its owner described it.
type File struct {
	ID       string    `json:"id"`
	Filename string    `json:"filename"`
	Length   int64     `json:"length"`
	Owner    string    `json:"owner"`
	Created  time.Time `json:"created"`
	Metadata string    `json:"metadata"` // as the protocol sends it
	Model    string    `json:"model,omitempty"`
	SHA256   string    `json:"sha256,omitempty"` // of the whole, as the owner said; empty: not said
	Computed string    `json:"-"`                // of the whole, once it is there
	Notes    string    `json:"notes,omitempty"`
	Activate bool      `json:"activate,omitempty"` // do not wait for a person
}

// Uploads are the uploads of a box. It is safe for concurrent use.
type Uploads struct {
	cfg Config

	mu  sync.Mutex // guards all
	all map[string]*upload
}

// Open reads the uploads that are there. What belongs to none is removed.
func Open(cfg Config) (*Uploads, error) {
	const op = "uploads.Open"
	u := &Uploads{cfg: cfg, all: map[string]*upload{}}
	if err := os.MkdirAll(cfg.Dir, folderMode); err != nil {
		return nil, edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	entries, err := os.ReadDir(cfg.Dir)
	if err != nil {
		return nil, edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	for _, e := range entries {
		up, err := readUpload(filepath.Join(cfg.Dir, e.Name()))
		if err != nil {
			cfg.Log.Warn("an upload is removed that cannot be read", "upload", e.Name(), "error", err)
			if err := os.RemoveAll(filepath.Join(cfg.Dir, e.Name())); err != nil {
				cfg.Log.Error("removing an upload", "upload", e.Name(), "error", err)
			}
			continue
		}
		u.all[up.ID] = up
	}
	return u, nil
}

// Start tells of the files that are whole. It is called once.
func (u *Uploads) Start() {
	u.mu.Lock()
	all := slices.Collect(maps.Values(u.all))
	u.mu.Unlock()
	slices.SortFunc(all, func(a, b *upload) int { return a.Created.Compare(b.Created) })
	for _, up := range all {
		up.hold.Lock()
		u.finish(up)
		up.give()
	}
}

// MaxBytes bounds a file.
func (u *Uploads) MaxBytes() int64 { return u.cfg.MaxBytes }

// Create begins an upload. Errors: Invalid with Field, TooLarge, Busy over MaxPerOwner or MaxTotal, Exhausted when the
// disk has too little room for it.
func (u *Uploads) Create(f File) (admin.Upload, error) {
	const op = "uploads.Create"
	if err := u.check(&f); err != nil {
		return admin.Upload{}, err
	}
	f.ID, f.Created = newID(), time.Now().UTC()
	u.mu.Lock()
	defer u.mu.Unlock()
	own, total, due := 0, 0, int64(0)
	for _, up := range u.all {
		missing := up.missing()
		if missing == 0 {
			continue
		}
		total++
		due += missing
		if up.Owner == f.Owner {
			own++
		}
	}
	if own >= MaxPerOwner || total >= MaxTotal {
		err := edgewise.Errorf(op, edgewise.Busy, "%d uploads are unfinished, of them %d your own: finish or cancel one "+
			"first (at most %d of one person, %d of everybody)", total, own, MaxPerOwner, MaxTotal)
		err.Reason, err.Limit, err.Retry = "rate_limited", MaxPerOwner, time.Minute
		return admin.Upload{}, err
	}
	// The store copies a file before it lets go of it.
	if err := u.cfg.Room(2*f.Length + due); err != nil {
		return admin.Upload{}, err
	}
	up := &upload{File: f, dir: filepath.Join(u.cfg.Dir, f.ID), Active: f.Created}
	if err := up.create(); err != nil {
		return admin.Upload{}, edgewise.Errorf(op, edgewise.Exhausted, "the upload cannot be begun: %w",
			errors.Join(bare(err), os.RemoveAll(up.dir)))
	}
	u.all[f.ID] = up
	return up.public(), nil
}

func (u *Uploads) check(f *File) error {
	const op = "uploads.Create"
	invalid := func(field, format string, args ...any) error {
		return edgewise.Errorf(op, edgewise.Invalid, format, args...).WithField(field)
	}
	if f.Filename == "" {
		return invalid("filename", "the upload has no file name: want it as filename in its metadata, since the name's end "+
			"says what the file is")
	}
	f.Filename = filepath.Base(strings.ReplaceAll(f.Filename, `\`, "/"))
	switch {
	case edgewise.CheckPath(f.Filename) != nil || f.Filename == "/" || len(f.Filename) > MaxName:
		return invalid("filename", "file name %.80q: want a name of 1 to %d bytes", f.Filename, MaxName)
	case Archive(f.Filename) == "" && !u.isModel(f.Filename):
		return invalid("filename", "file %.80q: its name ends in none of %s", f.Filename, strings.Join(u.endings(), ", "))
	case f.Length <= 0:
		return invalid("length", "file %.80q has %d bytes: want 1 or more", f.Filename, f.Length)
	case f.Model != "" && edgewise.CheckName(f.Model) != nil:
		return invalid("model", "%w", edgewise.CheckName(f.Model))
	case f.SHA256 != "" && !isDigest(f.SHA256):
		return invalid("sha256", "sha256 is %.80q: want 64 hexadecimal digits", f.SHA256)
	}
	if f.Length > u.cfg.MaxBytes {
		return edgewise.Errorf(op, edgewise.TooLarge, "file %.80q has %d bytes: at most %d are allowed (upload.max_bytes)",
			f.Filename, f.Length, u.cfg.MaxBytes).WithLimit(u.cfg.MaxBytes)
	}
	f.SHA256 = strings.ToLower(f.SHA256)
	return nil
}

func isDigest(text string) bool {
	b, err := hex.DecodeString(text)
	return err == nil && len(b) == 32
}

func newID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // which cannot fail
	return hex.EncodeToString(b)
}

// find returns an upload that somebody may see: the owner, and whoever has the right admin.
func (u *Uploads) find(p *edgewise.Principal, id string) (*upload, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	up := u.all[id]
	if up == nil || up.Owner != p.Actor() && p.Rights&edgewise.Admin == 0 {
		return nil, edgewise.Errorf("uploads.find", edgewise.NotFound, "there is no upload %.64q: it was finished, "+
			"canceled or has expired", id)
	}
	return up, nil
}

// Get returns an upload. Errors: NotFound.
func (u *Uploads) Get(p *edgewise.Principal, id string) (admin.Upload, error) {
	up, err := u.find(p, id)
	if err != nil {
		return admin.Upload{}, err
	}
	return up.public(), nil
}

// Metadata returns what the sender said of an upload. Errors: NotFound.
func (u *Uploads) Metadata(p *edgewise.Principal, id string) (string, error) {
	up, err := u.find(p, id)
	if err != nil {
		return "", err
	}
	return up.Metadata, nil
}

// List returns the unfinished uploads that p may see, oldest first.
func (u *Uploads) List(p *edgewise.Principal) []admin.Upload {
	u.mu.Lock()
	var seen []*upload
	for _, up := range u.all {
		if !up.whole() && (up.Owner == p.Actor() || p.Rights&edgewise.Admin != 0) {
			seen = append(seen, up)
		}
	}
	u.mu.Unlock()
	list := make([]admin.Upload, 0, len(seen))
	for _, up := range seen {
		list = append(list, up.public())
	}
	slices.SortFunc(list, func(a, b admin.Upload) int { return a.Created.Compare(b.Created) })
	return list
}

// Offset returns how much of an upload has arrived, after a sender that still holds it was cut off. Errors: NotFound,
// Busy.
func (u *Uploads) Offset(ctx context.Context, p *edgewise.Principal, id string) (admin.Upload, error) {
	up, err := u.find(p, id)
	if err != nil {
		return admin.Upload{}, err
	}
	if err := up.take(ctx); err != nil {
		return admin.Upload{}, err
	}
	up.give()
	return up.public(), nil
}

// Delete gives an upload up, and whatever was made of it. Errors: NotFound, Busy.
func (u *Uploads) Delete(ctx context.Context, p *edgewise.Principal, id string) error {
	up, err := u.find(p, id)
	if err != nil {
		return err
	}
	if err := up.take(ctx); err != nil {
		return err
	}
	return u.Remove(id)
}

// Remove removes an upload's files. It may be gone already.
func (u *Uploads) Remove(id string) error {
	u.mu.Lock()
	up := u.all[id]
	delete(u.all, id)
	u.mu.Unlock()
	if up == nil {
		return nil
	}
	if err := os.RemoveAll(up.dir); err != nil {
		return edgewise.Errorf("uploads.Remove", edgewise.Internal, "%w", err)
	}
	return nil
}

// Path returns the file of an upload that is whole, and the folder beside it in which it may be unpacked.
func (u *Uploads) Path(id string) (file, folder string) {
	dir := filepath.Join(u.cfg.Dir, id)
	return filepath.Join(dir, dataFile), filepath.Join(dir, "unpacked")
}

// Sweep removes the uploads whose time is over, but for those that keep says are in use, and returns their ids.
func (u *Uploads) Sweep(keep func(id string) bool) (over []string) {
	u.mu.Lock()
	for id, up := range u.all {
		if time.Since(up.lastActive()) > Expiry && !keep(id) {
			over = append(over, id)
		}
	}
	u.mu.Unlock()
	for _, id := range over {
		u.cfg.Log.Info("an upload has expired", "upload", id)
		if err := u.Remove(id); err != nil && !errors.Is(err, fs.ErrNotExist) {
			u.cfg.Log.Error("removing an upload", "upload", id, "error", err)
		}
	}
	return over
}

// The kinds of archives.
const (
	Zip    = "zip"
	Tar    = "tar"
	Backup = "backup"
	// Reference is none: the file has a reference of a registry, which has the files.
	Reference = "reference"
)

// archives lists the ends of archives' names, and what they are.
func archives() [][2]string {
	return [][2]string{{".zip", Zip}, {".mar", Zip}, {".tar", Tar}, {".edgewise-backup", Backup}, {".oci", Reference}}
}

// Archive tells by a file's name which kind of archive it is; "" for none.
func Archive(filename string) string {
	for _, a := range archives() {
		if name, ok := strings.CutSuffix(strings.ToLower(filename), a[0]); ok && name != "" {
			return a[1]
		}
	}
	return ""
}

func (u *Uploads) isModel(filename string) bool {
	_, ok := u.cfg.Formats.OfFile(filename)
	return ok
}

// endings lists the ends of the names of files that are accepted.
func (u *Uploads) endings() []string {
	list := u.cfg.Formats.Extensions()
	for _, a := range archives() {
		list = append(list, a[0])
	}
	return list
}

// bare strips the path that the os package puts around an error of the system.
func bare(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
