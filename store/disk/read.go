package disk

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"

	"github.com/edgewise-ai/edgewise"
)

const (
	readBytes = 1 << 20 // read at a time
	// maxEmptyReads bounds how often in a row a reader may return neither bytes nor an error.
	maxEmptyReads = 100
)

// SameFile tells whether two paths lead to the same bytes on the disk.
func SameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// SameContent tells whether two files hold the same bytes.
func SameContent(ctx context.Context, a, b string) (bool, error) {
	x, err := os.Open(a)
	if err != nil {
		return false, err
	}
	defer func() { _ = x.Close() }()
	y, err := os.Open(b)
	if err != nil {
		return false, err
	}
	defer func() { _ = y.Close() }()
	left, right := make([]byte, readBytes), make([]byte, readBytes)
	for {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n, endX, failX := Fill(x, left)
		m, endY, failY := Fill(y, right)
		if err := errors.Join(failX, failY); err != nil {
			return false, err
		}
		if !bytes.Equal(left[:n], right[:m]) {
			return false, nil
		}
		if endX && endY {
			return true, nil
		}
	}
}

// Hash returns the SHA-256 of a file.
func Hash(ctx context.Context, path string) (edgewise.Digest, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	sum, buf := sha256.New(), make([]byte, readBytes)
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		n, err := f.Read(buf)
		_, _ = sum.Write(buf[:n]) // never fails
		if err == io.EOF {
			return edgewise.Digest(hex.EncodeToString(sum.Sum(nil))), nil
		}
		if err != nil {
			return "", err
		}
	}
}

// Fill reads until buf is full or r ends. Only io.EOF itself is an end: an error that wraps it, or a body that was cut
// off, must not look like one that ended.
func Fill(r io.Reader, buf []byte) (n int, ended bool, err error) {
	for empty := 0; n < len(buf) && err == nil; {
		var m int
		m, err = r.Read(buf[n:])
		n += m
		if err == io.EOF {
			return n, true, nil
		}
		if m > 0 {
			empty = 0
			continue
		}
		if empty++; err == nil && empty >= maxEmptyReads {
			err = io.ErrNoProgress
		}
	}
	return n, false, err
}
