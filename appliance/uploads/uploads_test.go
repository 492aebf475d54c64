package uploads

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"github.com/edgewise-ai/edgewise"
)

var anna = &edgewise.Principal{Kind: "person", Name: "anna", Rights: edgewise.Operate}

// box is a folder of uploads that can be opened again.
type box struct {
	dir      string
	finished []File
	full     atomic.Bool
}

func (b *box) open(t testing.TB) *Uploads {
	t.Helper()
	u, err := Open(Config{
		Dir: b.dir, Formats: edgewise.Formats{{File: "model.onnx"}, {File: "model.wasm"}}, MaxBytes: 1 << 30, Log: slog.New(slog.DiscardHandler),
		Finished: func(f File) { b.finished = append(b.finished, f) },
		Room: func(int64) error {
			if b.full.Load() {
				return edgewise.Errorf("test", edgewise.Exhausted, "the disk has 3 bytes free")
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func send(b []byte) Body { return Body{bytes.NewReader(b), func() {}} }

func create(t testing.TB, u *Uploads, length int) string {
	t.Helper()
	up, err := u.Create(File{Filename: "m.onnx", Length: int64(length), Owner: anna.Actor()})
	if err != nil {
		t.Fatal(err)
	}
	return up.ID
}

func wantKind(t testing.TB, err error, kind edgewise.Kind, text string) {
	t.Helper()
	if err == nil || edgewise.KindOf(err) != kind || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want %v with %q", err, kind, text)
	}
}

// TestPiecesMakeTheWhole sends a file in any pieces, with senders that break off, wrong offsets, wrong checksums and
// restarts between them.
func TestPiecesMakeTheWhole(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		b := &box{dir: filepath.Join(dir, newID())}
		u := b.open(t)
		file := rapid.SliceOfN(rapid.Byte(), 1, 400).Draw(rt, "file")
		id := create(t, u, len(file))
		stored := 0
		for stored < len(file) {
			up, err := u.Get(anna, id)
			if err != nil || up.Offset != int64(stored) {
				rt.Fatalf("offset %d, %v, want %d", up.Offset, err, stored)
			}
			n := rapid.IntRange(0, len(file)-stored).Draw(rt, "piece")
			piece := file[stored : stored+n]
			sum := sha256.Sum256(piece)
			switch rapid.SampledFrom([]string{
				"send", "send", "checked", "break off", "wrong sum", "wrong offset", "too much",
				"restart",
			}).Draw(rt, "do") {
			case "send":
				_, err = u.Write(t.Context(), anna, id, up.Offset, send(piece), nil)
				stored += n
			case "checked":
				_, err = u.Write(t.Context(), anna, id, up.Offset, send(piece), sum[:])
				stored += n
			case "break off":
				broken := Body{io.MultiReader(bytes.NewReader(piece), iotest.ErrReader(io.ErrUnexpectedEOF)), func() {}}
				if _, err := u.Write(t.Context(), anna, id, up.Offset, broken, nil); !errors.Is(err, io.ErrUnexpectedEOF) {
					rt.Fatal(err)
				}
				stored += n
			case "wrong sum":
				sum[0]++
				if _, err := u.Write(t.Context(), anna, id, up.Offset, send(piece), sum[:]); err == nil ||
					edgewise.KindOf(err) != edgewise.Corrupt {
					rt.Fatal(err)
				}
			case "wrong offset":
				if _, err := u.Write(t.Context(), anna, id, up.Offset+1, send(piece), nil); err == nil ||
					edgewise.KindOf(err) != edgewise.Conflict {
					rt.Fatal(err)
				}
			case "too much":
				if _, err := u.Write(t.Context(), anna, id, up.Offset, send(append(bytes.Clone(file[stored:]), 1)),
					nil); err == nil || edgewise.KindOf(err) != edgewise.TooLarge {
					rt.Fatal(err)
				}
			case "restart":
				u = b.open(t)
				u.Start()
			}
			if err != nil {
				rt.Fatal(err)
			}
		}
		sum := sha256.Sum256(file)
		u.Start() // after a restart
		if len(b.finished) != 1 || b.finished[0].Computed != hex.EncodeToString(sum[:]) {
			rt.Fatalf("finished: %+v", b.finished)
		}
		path, _ := u.Path(id)
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, file) {
			rt.Fatalf("%d bytes, %v", len(got), err)
		}
	})
}

func TestBytesBehindTheStoredOffsetAreCutOff(t *testing.T) {
	b := &box{dir: t.TempDir()}
	u := b.open(t)
	id := create(t, u, 10)
	if _, err := u.Write(t.Context(), anna, id, 0, send([]byte("abcde")), nil); err != nil {
		t.Fatal(err)
	}
	path, _ := u.Path(id)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteString("garbage that no offset speaks of")
	_ = f.Close()
	u = b.open(t)
	if up, err := u.Write(t.Context(), anna, id, 5, send([]byte("fghij")), nil); err != nil || up.Offset != 10 {
		t.Fatal(up, err)
	}
	if got, _ := os.ReadFile(path); string(got) != "abcdefghij" {
		t.Errorf("%q", got)
	}
}

func TestASenderThatHangsIsCutOff(t *testing.T) {
	b := &box{dir: t.TempDir()}
	u := b.open(t)
	id := create(t, u, 10)
	hung, cut := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := u.Write(context.Background(), anna, id, 0,
			Body{hung, func() { _ = cut.CloseWithError(os.ErrDeadlineExceeded) }}, nil)
		ended <- err
	}()
	_, _ = cut.Write([]byte("abc"))
	up, err := u.Offset(t.Context(), anna, id)
	if err != nil || up.Offset != 3 {
		t.Errorf("%+v, %v", up, err)
	}
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

func TestUploadsThatAreRefused(t *testing.T) {
	b := &box{dir: t.TempDir()}
	u := b.open(t)
	for name, test := range map[string]struct {
		file  File
		kind  edgewise.Kind
		field string
	}{
		"no name":      {File{Length: 1}, edgewise.Invalid, "filename"},
		"another kind": {File{Filename: "a.exe", Length: 1}, edgewise.Invalid, "filename"},
		"an end alone": {File{Filename: ".onnx", Length: 1}, edgewise.Invalid, "filename"},
		"a long name":  {File{Filename: strings.Repeat("n", MaxName) + ".onnx", Length: 1}, edgewise.Invalid, "filename"},
		"nothing":      {File{Filename: "a.onnx"}, edgewise.Invalid, "length"},
		"a bad model":  {File{Filename: "a.onnx", Length: 1, Model: "a/b"}, edgewise.Invalid, "model"},
		"a bad sum":    {File{Filename: "a.onnx", Length: 1, SHA256: "xyz"}, edgewise.Invalid, "sha256"},
		"too large":    {File{Filename: "a.onnx", Length: 1<<30 + 1}, edgewise.TooLarge, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := u.Create(test.file)
			wantKind(t, err, test.kind, "")
			if own, ok := errors.AsType[*edgewise.Error](err); !ok || own.Field != test.field {
				t.Errorf("%+v", err)
			}
		})
	}
	if _, err := u.Create(File{Length: 1}); err == nil || !strings.Contains(err.Error(), "the upload has no file name") {
		t.Errorf("without a name: %v", err)
	}
	if up, err := u.Create(File{Filename: `C:\models\a.onnx`, Length: 1}); err != nil || up.Filename != "a.onnx" {
		t.Errorf("%+v, %v", up, err)
	}
	b.full.Store(true)
	_, err := u.Create(File{Filename: "a.onnx", Length: 1})
	wantKind(t, err, edgewise.Exhausted, "3 bytes free")
}

func TestUnfinishedUploadsAreBoundedAndExpire(t *testing.T) {
	b := &box{dir: t.TempDir()}
	u := b.open(t)
	first := create(t, u, 10)
	create(t, u, 10)
	_, err := u.Create(File{Filename: "m.onnx", Length: 1, Owner: anna.Actor()})
	wantKind(t, err, edgewise.Busy, "finish or cancel one first")
	for i := range MaxTotal - 2 {
		if _, err := u.Create(File{Filename: "m.onnx", Length: 1, Owner: strings.Repeat("x", i+1)}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = u.Create(File{Filename: "m.onnx", Length: 1, Owner: "another"})
	wantKind(t, err, edgewise.Busy, "")
	u.all[first].Active = time.Now().Add(-Expiry - time.Second)
	if over := u.Sweep(func(string) bool { return false }); !slices.Equal(over, []string{first}) {
		t.Errorf("over: %v, want %s", over, first)
	}
	if _, err := u.Get(anna, first); err == nil || len(u.all) != MaxTotal-1 {
		t.Errorf("%v, %d uploads", err, len(u.all))
	}
	if _, err := os.Stat(filepath.Join(b.dir, first)); !errors.Is(err, os.ErrNotExist) {
		t.Error("its files are still there")
	}
}

func TestWhatIsNoUploadIsRemovedAtTheStart(t *testing.T) {
	b := &box{dir: t.TempDir()}
	id := create(t, b.open(t), 10)
	if err := errors.Join(os.Mkdir(filepath.Join(b.dir, "junk"), 0o700),
		os.WriteFile(filepath.Join(b.dir, id, stateFile), []byte("{"), 0o600)); err != nil {
		t.Fatal(err)
	}
	b.open(t)
	if entries, err := os.ReadDir(b.dir); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestAFullDiskKeepsWhatHasArrived(t *testing.T) {
	b := &box{dir: t.TempDir()}
	u := b.open(t)
	id := create(t, u, 4*saveEvery)
	b.full.Store(true)
	_, err := u.Write(t.Context(), anna, id, 0, send(make([]byte, 4*saveEvery)), nil)
	wantKind(t, err, edgewise.Exhausted, "3 bytes free")
	up, err := b.open(t).Get(anna, id)
	if err != nil || up.Offset < saveEvery || up.Offset >= 4*saveEvery {
		t.Errorf("%+v, %v", up, err)
	}
}

// TestAFileThatIsWholeIsFinishedHoweverItsSenderEnds has the last bytes arrive in a request that breaks off behind
// them: the sender learns the offset, and has nothing left to send.
func TestAFileThatIsWholeIsFinishedHoweverItsSenderEnds(t *testing.T) {
	b := &box{dir: t.TempDir()}
	u := b.open(t)
	id := create(t, u, 10)
	broken := Body{io.MultiReader(strings.NewReader("0123456789"), iotest.ErrReader(io.ErrUnexpectedEOF)), func() {}}
	if _, err := u.Write(t.Context(), anna, id, 0, broken, nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if up, err := u.Offset(t.Context(), anna, id); err != nil || up.Offset != 10 {
		t.Fatalf("%+v, %v", up, err)
	}
	if len(b.finished) != 1 {
		t.Errorf("finished: %+v", b.finished)
	}
	if _, err := u.Write(t.Context(), anna, id, 10, send(nil), nil); err != nil || len(b.finished) != 1 {
		t.Errorf("asked again: %v, finished %d times", err, len(b.finished))
	}
}

// TestAnOffsetThatCannotBeStoredIsNotTold has no room for the offset behind the last bytes.
func TestAnOffsetThatCannotBeStoredIsNotTold(t *testing.T) {
	b := &box{dir: t.TempDir()}
	u := b.open(t)
	id := create(t, u, 10)
	if _, err := u.Write(t.Context(), anna, id, 0, send([]byte("0123")), nil); err != nil {
		t.Fatal(err)
	}
	full := filepath.Join(b.dir, id, stateFile+".new")
	if err := os.Mkdir(full, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := u.Write(t.Context(), anna, id, 4, send([]byte("456789")), nil)
	wantKind(t, err, edgewise.Exhausted, "storing its offset")
	up, err := u.Offset(t.Context(), anna, id)
	if err != nil || up.Offset != 4 || len(b.finished) != 0 {
		t.Fatalf("%+v, %v, finished: %+v", up, err, b.finished)
	}
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	if _, err := u.Write(t.Context(), anna, id, up.Offset, send([]byte("456789")), nil); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("0123456789"))
	if len(b.finished) != 1 || b.finished[0].Computed != hex.EncodeToString(sum[:]) {
		t.Errorf("finished: %+v", b.finished)
	}
}

// TestUploadsBeginWhileOthersArrive is for the race detector.
func TestUploadsBeginWhileOthersArrive(t *testing.T) {
	b := &box{dir: t.TempDir()}
	u := b.open(t)
	id := create(t, u, 100)
	done := make(chan error, 1)
	go func() {
		_, err := u.Write(context.Background(), anna, id, 0,
			Body{iotest.OneByteReader(bytes.NewReader(make([]byte, 100))), func() {}}, nil)
		done <- err
	}()
	for range 20 {
		up, err := u.Create(File{Filename: "m.onnx", Length: 1, Owner: "another"})
		if err == nil {
			err = u.Remove(up.ID)
		}
		if err != nil {
			t.Error(err)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
