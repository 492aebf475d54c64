package uploads

import (
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

const (
	saveEvery = 8 << 20                // bytes between two stored offsets
	bufSize   = 256 << 10              // memory of an upload in flight
	takeTime  = 5 * time.Second        // for a sender that is cut off to let go
	takeAgain = 100 * time.Millisecond // between two cuts
)

// upload is one file on its way. Offset, Hash and Active are stored; who holds it may change them.
type upload struct {
	File
	Offset int64     `json:"offset"`
	Hash   []byte    `json:"hash"` // state of the running SHA-256
	Active time.Time `json:"active"`

	dir    string
	sum    hash.Hash
	stored mark       // what state.json says
	told   bool       // Config.Finished was called
	hold   sync.Mutex // held by who writes, or looks
	cut    atomic.Pointer[func()]
	mu     sync.Mutex // guards Offset and Active against readers
}

// mark is how far an upload is on disk.
type mark struct {
	offset int64
	hash   []byte
}

// Body is what a sender sends. Cut ends a Read that waits; it may be called by anybody at any time.
type Body struct {
	io.Reader
	Cut func()
}

func readUpload(dir string) (*upload, error) {
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return nil, err
	}
	up := &upload{dir: dir, sum: sha256.New()}
	if err := json.Unmarshal(text, up); err != nil {
		return nil, err
	}
	if up.ID != filepath.Base(dir) || up.Offset < 0 || up.Offset > up.Length {
		return nil, errors.New("its description contradicts itself")
	}
	if err := up.sum.(encoding.BinaryUnmarshaler).UnmarshalBinary(up.Hash); err != nil {
		return nil, err
	}
	info, err := os.Stat(filepath.Join(dir, dataFile))
	switch {
	case err != nil:
		return nil, err
	case info.Size() < up.Offset:
		return nil, fmt.Errorf("the file has %d bytes, of which %d are said to be stored", info.Size(), up.Offset)
	}
	up.stored = mark{up.Offset, up.Hash}
	return up, os.Truncate(filepath.Join(dir, dataFile), up.Offset)
}

func (up *upload) create() error {
	if err := os.Mkdir(up.dir, folderMode); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(up.dir, dataFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return err
	}
	up.sum = sha256.New()
	return errors.Join(f.Close(), up.save())
}

// save stores the offset and the state of the hash. The bytes before the offset are on disk. After an error what was
// stored before stands.
func (up *upload) save() error {
	state, err := up.sum.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		return err
	}
	up.Hash = state
	text, err := json.Marshal(up)
	if err != nil {
		return err
	}
	path := filepath.Join(up.dir, stateFile)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	up.stored = mark{up.Offset, state}
	return nil
}

// goBack takes back what was written behind the stored offset, as a restart would. The sender sends it again.
func (up *upload) goBack() error {
	up.setOffset(up.stored.offset)
	return up.sum.(encoding.BinaryUnmarshaler).UnmarshalBinary(up.stored.hash)
}

func (up *upload) whole() bool { return up.missing() == 0 }

// missing is how many bytes have not arrived.
func (up *upload) missing() int64 {
	up.mu.Lock()
	defer up.mu.Unlock()
	return up.Length - up.Offset
}

func (up *upload) lastActive() time.Time {
	up.mu.Lock()
	defer up.mu.Unlock()
	return up.Active
}

func (up *upload) public() admin.Upload {
	up.mu.Lock()
	defer up.mu.Unlock()
	return admin.Upload{
		ID: up.ID, Filename: up.Filename, Model: up.Model, Length: up.Length, Offset: up.Offset, Created: up.Created,
		Expires: up.Active.Add(Expiry), Owner: up.Owner,
	}
}

// take waits until nobody holds the upload, and cuts off who does. Errors: Busy, and those of ctx.
func (up *upload) take(ctx context.Context) error {
	deadline := time.NewTimer(takeTime)
	defer deadline.Stop()
	for !up.hold.TryLock() {
		if cut := up.cut.Load(); cut != nil {
			(*cut)()
		}
		again := time.NewTimer(takeAgain)
		select {
		case <-again.C:
		case <-deadline.C:
			again.Stop()
			err := edgewise.Errorf("uploads.take", edgewise.Busy, "another request holds upload %s: try again soon", up.ID)
			err.Retry = time.Second
			return err
		case <-ctx.Done():
			again.Stop()
			return ctx.Err()
		}
	}
	return nil
}

func (up *upload) give() {
	up.cut.Store(nil)
	up.hold.Unlock()
}

// Write takes the bytes of an upload from an offset on, until body ends or the file is whole. checksum, where it is not
// nil, is the SHA-256 of the bytes of this body; when they have another, they are taken back. What was read before an
// error of body is kept, but for one with a checksum; also when that was all of it, and the file is finished. Errors:
// NotFound, Busy, Conflict for another offset, TooLarge for more bytes than were announced, Corrupt for another
// checksum, Exhausted, and those of body.
func (u *Uploads) Write(ctx context.Context, p *edgewise.Principal, id string, offset int64, body Body,
	checksum []byte,
) (admin.Upload, error) {
	const op = "uploads.Write"
	up, err := u.find(p, id)
	if err != nil {
		return admin.Upload{}, err
	}
	if err := up.take(ctx); err != nil {
		return admin.Upload{}, err
	}
	cut := body.Cut
	up.cut.Store(&cut)
	defer up.give()
	u.mu.Lock()
	gone := u.all[id] != up
	u.mu.Unlock()
	if gone {
		return admin.Upload{}, edgewise.Errorf(op, edgewise.NotFound, "upload %s was canceled", id)
	}
	if offset != up.Offset {
		return up.public(), edgewise.Errorf(op, edgewise.Conflict, "upload %s has %d bytes, not %d: go on from there", id,
			up.Offset, offset)
	}
	if !up.whole() {
		err = up.receive(body, checksum, u.cfg.Room)
	}
	u.finish(up)
	return up.public(), err
}

// finish tells once that a file is whole, if it is. The caller holds up.
func (u *Uploads) finish(up *upload) {
	if up.told || !up.whole() {
		return
	}
	up.told = true
	up.Computed = hex.EncodeToString(up.sum.Sum(nil))
	u.cfg.Finished(up.File)
}

// receive appends body to the file.
func (up *upload) receive(body Body, checksum []byte, room func(int64) error) error {
	const op = "uploads.Write"
	f, err := os.OpenFile(filepath.Join(up.dir, dataFile), os.O_WRONLY, fileMode)
	if err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "upload %s: %w", up.ID, bare(err))
	}
	w := &writer{up: up, file: f, room: room, piece: sha256.New(), strict: checksum != nil}
	begin := up.Offset
	before, err := up.sum.(encoding.BinaryMarshaler).MarshalBinary()
	if err == nil {
		if _, err = f.Seek(up.Offset, io.SeekStart); err == nil {
			err = w.copy(body)
		}
	}
	if checksum != nil && (err != nil || string(w.piece.Sum(nil)) != string(checksum)) {
		if err == nil {
			err = edgewise.Errorf(op, edgewise.Corrupt, "the bytes from %d on do not have the checksum that was sent with "+
				"them: send them again", begin)
		}
		back := errors.Join(f.Truncate(begin), up.sum.(encoding.BinaryUnmarshaler).UnmarshalBinary(before))
		up.setOffset(begin)
		return errors.Join(err, back, up.save(), f.Close())
	}
	return errors.Join(err, w.settle(), f.Close())
}

func (up *upload) setOffset(n int64) {
	up.mu.Lock()
	defer up.mu.Unlock()
	up.Offset, up.Active = n, time.Now().UTC()
}

// writer writes the bytes of one request behind those that are there.
type writer struct {
	up     *upload
	file   *os.File
	room   func(int64) error
	piece  hash.Hash // of this request's bytes
	strict bool      // nothing is stored before the piece was checked
	unsure int64     // bytes written since the last save
}

func (w *writer) copy(body io.Reader) error {
	const op = "uploads.Write"
	buffer := make([]byte, bufSize)
	for {
		n, err := body.Read(buffer)
		if n > 0 {
			if over := w.up.Offset + int64(n) - w.up.Length; over > 0 {
				return edgewise.Errorf(op, edgewise.TooLarge, "upload %s was announced with %d bytes, and more arrive", w.up.ID,
					w.up.Length)
			}
			if err := w.write(buffer[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (w *writer) write(p []byte) error {
	if _, err := w.file.Write(p); err != nil {
		return edgewise.Errorf("uploads.Write", edgewise.Exhausted, "upload %s: after %d bytes: %w", w.up.ID, w.up.Offset,
			bare(err))
	}
	w.up.sum.Write(p)
	w.piece.Write(p)
	w.up.setOffset(w.up.Offset + int64(len(p)))
	w.unsure += int64(len(p))
	if w.unsure < saveEvery || w.strict {
		return nil
	}
	if err := w.room(0); err != nil {
		return err
	}
	return w.settle()
}

// settle makes what was written so far count, or takes it back.
func (w *writer) settle() error {
	if err := errors.Join(w.file.Sync(), w.up.save()); err != nil {
		err = errors.Join(err, w.up.goBack())
		return edgewise.Errorf("uploads.Write", edgewise.Exhausted, "upload %s: storing its offset: %w", w.up.ID, bare(err))
	}
	w.unsure = 0
	return nil
}
