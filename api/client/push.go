package client

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

const opPush = "client.Push"

// Push uploads a version as it is read from up, without holding it in memory, and returns it as the box stored it. With
// promote the label live points to it afterwards. progress, which may be nil, is called now and then by another
// goroutine with the bytes of the files sent so far.
//
// The first file must declare its size. If it is all of up.Size it is sent by itself, with its length; otherwise the
// files are sent as a tar stream and each must declare its size. What the box stored is compared with what was read.
// Errors: those of up and of the box; Invalid for a size that is missing or wrong; Corrupt when a file did not arrive
// as it was read.
func (c *Client) Push(ctx context.Context, up edgewise.Upload, promote bool, progress func(sent int64)) (*admin.Version,
	error,
) {
	if progress == nil {
		progress = func(int64) {}
	}
	path, size, file, err := up.Next()
	if errors.Is(err, io.EOF) {
		return nil, edgewise.Errorf(opPush, edgewise.Invalid, "model %q: the upload has no file", up.Model)
	}
	if err != nil {
		return nil, err
	}
	s := &sender{next: up.Next, progress: progress, digests: make(map[string]edgewise.Digest)}
	query := url.Values{"promote": {strconv.FormatBool(promote)}}
	if up.Version != 0 {
		query.Set("version", strconv.FormatInt(up.Version, 10))
	}
	if up.Size >= 0 {
		query.Set("size", strconv.FormatInt(up.Size, 10)) // so that a full disk refuses before anything is sent
	}
	contentType, length, write := "application/x-tar", int64(-1), s.archive
	if size >= 0 && size == up.Size {
		contentType, length, write = "application/octet-stream", size, s.single
		query.Set("file", path)
	}
	body, to := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = to.CloseWithError(write(to, path, size, file))
	}()
	v := new(admin.Version)
	err = c.send(ctx, modelPath(up.Model)+"/versions?"+query.Encode(), http.Header{"Content-Type": {contentType}}, length, body,
		v)
	_ = body.CloseWithError(errStopped)
	<-done
	switch {
	case err != nil && s.err != nil && !errors.Is(s.err, errStopped) && !errors.Is(s.err, io.ErrClosedPipe):
		return nil, s.err // the cause of what the box, or the connection, says
	case err != nil:
		return nil, err
	}
	return v, s.check(v)
}

// errStopped ends the sender when the answer is there before the body was sent.
var errStopped = errors.New("the answer came before the end of the upload")

// sender writes the files of an upload into the body of a request.
type sender struct {
	next     func() (string, int64, io.Reader, error)
	progress func(int64)
	sent     int64
	digests  map[string]edgewise.Digest // by path
	err      error                      // why it ended early
}

// single writes one file by itself.
func (s *sender) single(to io.Writer, path string, size int64, file io.Reader) error {
	s.err = s.copy(to, path, size, file, func() error {
		_, _, _, err := s.next()
		if err == nil {
			return edgewise.Errorf(opPush, edgewise.Invalid, "the upload declares the %d bytes of %q and has more files", size,
				path)
		}
		if !errors.Is(err, io.EOF) {
			return err
		}
		return nil
	})
	return s.err
}

// archive writes the file given and all that follow as a tar stream.
func (s *sender) archive(to io.Writer, path string, size int64, file io.Reader) error {
	t := tar.NewWriter(to)
	for s.err == nil {
		if size < 0 {
			s.err = edgewise.Errorf(opPush, edgewise.Invalid, "file %q: its size must be declared to send it with others", path)
			break
		}
		if s.err = t.WriteHeader(&tar.Header{Name: path, Typeflag: tar.TypeReg, Size: size, Mode: 0o644}); s.err != nil {
			break
		}
		if s.err = s.copy(t, path, size, file, func() error { return nil }); s.err != nil {
			break
		}
		var err error
		if path, size, file, err = s.next(); errors.Is(err, io.EOF) {
			s.err = t.Close()
			return s.err
		}
		s.err = err
	}
	return s.err
}

// copy writes one file of exactly size bytes. It calls ended before the last of them are sent.
func (s *sender) copy(to io.Writer, path string, size int64, file io.Reader, ended func() error) error {
	sum := sha256.New()
	from := &exact{file: &counted{s, file, sum}, rest: file, path: path, size: size, left: size, then: ended}
	if _, err := io.CopyBuffer(to, from, make([]byte, 256<<10)); err != nil {
		return err
	}
	s.digests[path] = edgewise.Digest(hex.EncodeToString(sum.Sum(nil)))
	return nil
}

// exact is a file that must have the bytes that were declared, no fewer and no more. Its last bytes are held back until
// that is known: a box that has got as many as it expects stores them.
type exact struct {
	file       io.Reader
	rest       io.Reader // the same file, past what is sent
	path       string
	size, left int64
	then       func() error // called once the file was found to end where it should; its error holds the last bytes back
	ended      bool
}

func (e *exact) Read(p []byte) (int, error) {
	if e.left == 0 && e.ended {
		return 0, io.EOF
	}
	n, err := e.file.Read(p[:min(int64(len(p)), e.left)])
	e.left -= int64(n)
	switch {
	case e.left == 0:
		extra, end := io.CopyN(io.Discard, e.rest, 1)
		if extra > 0 {
			return 0, e.differs()
		}
		if !errors.Is(end, io.EOF) {
			return 0, end
		}
		if err := e.then(); err != nil {
			return 0, err
		}
		e.ended = true
		return n, nil
	case errors.Is(err, io.EOF):
		return n, e.differs()
	}
	return n, err
}

func (e *exact) differs() error {
	return edgewise.Errorf(opPush, edgewise.Invalid, "file %q does not have the %d bytes that were declared", e.path,
		e.size)
}

// counted is a file whose bytes are hashed and counted as they are read.
type counted struct {
	s    *sender
	file io.Reader
	sum  hash.Hash
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.file.Read(p)
	c.sum.Write(p[:n])
	c.s.sent += int64(n)
	c.s.progress(c.s.sent)
	return n, err
}

// check compares the digests of what was stored with those of what was read.
func (s *sender) check(v *admin.Version) error {
	stored := make(map[string]edgewise.Digest, len(v.Files))
	for _, f := range v.Files {
		stored[f.Path] = f.Digest
	}
	for path, digest := range s.digests {
		if stored[path] != digest {
			return &edgewise.Error{
				Op: opPush, Kind: edgewise.Corrupt, Model: edgewise.ModelID{Name: v.Name, Version: v.Version},
				Err: errors.New("file " + strconv.Quote(path) + " did not arrive as it was read: it had the SHA-256 " +
					string(digest) +
					", the box stored " + strconv.Quote(string(stored[path]))),
			}
		}
	}
	return nil
}
