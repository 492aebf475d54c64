package driver

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"

	"aead.dev/minisign"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/update"
)

// The layout of a file: magic, the manifest in one line, its signature, zeros up to HeaderBytes, and the file system.
const (
	// Magic is what a file begins with. The signature covers it and the line behind it.
	Magic = "edgewise-driver 1\n"
	// HeaderBytes is where the file system begins.
	HeaderBytes = 64 << 10
	// MaxBytes bounds a file.
	MaxBytes = 1 << 30
)

// File is a driver extension whose header has been read. Nothing of it has been checked against a signature.
type File struct {
	Manifest  Manifest
	signed    []byte // the bytes that the signature is of
	signature []byte
	content   io.ReaderAt
}

// Read reads the header of a file of so many bytes. content stays the caller's, and is read again by Verify. Errors:
// Invalid, TooLarge.
func Read(content io.ReaderAt, size int64) (*File, error) {
	const op = "driver.Read"
	head := make([]byte, HeaderBytes)
	n, err := content.ReadAt(head, 0)
	if !bytes.HasPrefix(head[:n], []byte(Magic)) {
		return nil, edgewise.Errorf(op, edgewise.Invalid, "the file is no driver extension: "+
			"want edgewise-driver-NAME_VERSION_ARCHITECTURE.driver")
	}
	if n < HeaderBytes {
		if err != nil && err != io.EOF {
			return nil, edgewise.Errorf(op, edgewise.Internal, "reading the driver extension: %w", err)
		}
		return nil, edgewise.Errorf(op, edgewise.Invalid, "the driver extension ends after %d bytes: it was cut off", size)
	}
	line := bytes.IndexByte(head[len(Magic):], '\n')
	if line < 0 {
		return nil, edgewise.Errorf(op, edgewise.Invalid, "the manifest of the driver extension does not end within %d bytes", HeaderBytes)
	}
	end := len(Magic) + line + 1
	f := &File{signed: head[:end], signature: bytes.TrimRight(head[end:], "\x00"), content: content}
	decoder := json.NewDecoder(bytes.NewReader(head[len(Magic):end]))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&f.Manifest); err != nil {
		return nil, edgewise.Errorf(op, edgewise.Invalid, "the manifest of the driver extension cannot be read: %w", err)
	}
	if err := f.Manifest.Check(); err != nil {
		return nil, err
	}
	if want := f.Manifest.Size + HeaderBytes; size != want {
		return nil, edgewise.Errorf(op, edgewise.Invalid, "the driver extension has %d bytes, and its manifest says %d: "+
			"it was cut off or added to", size, want)
	}
	return f, nil
}

// VerifyHeader returns nil when one of the keys has signed the header. Error: Denied.
func (f *File) VerifyHeader(keys []minisign.PublicKey) error {
	return update.Verify(keys, bytes.NewReader(f.signed), f.signature, "driver extension")
}

// Verify returns nil when one of the keys has signed the header and the file system is the one that it names. It reads
// the whole file. Errors: Denied, Corrupt, Internal.
func (f *File) Verify(keys []minisign.PublicKey) error {
	const op = "driver.Verify"
	if err := f.VerifyHeader(keys); err != nil {
		return err
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, io.NewSectionReader(f.content, HeaderBytes, f.Manifest.Size)); err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "reading the driver extension: %w", err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != f.Manifest.SHA256 {
		return edgewise.Errorf(op, edgewise.Corrupt, "the driver extension %s %s was changed: its SHA-256 is %s, and its manifest says %s",
			f.Manifest.Name, f.Manifest.Version, got, f.Manifest.SHA256)
	}
	return nil
}
