package download

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/edgewise-ai/edgewise/api/fetch"
	"github.com/edgewise-ai/edgewise/fetch/place"
)

// shelf is a place whose answers can be made to go wrong.
type shelf struct {
	mu      sync.Mutex // guards what follows
	files   map[string]string
	opened  []string // names with offsets
	cut     int      // answers end after so many bytes; 0: they do not
	twist   func(string) string
	refuse  error
	sum     place.Sum // of answers from offset 0
	wrong   bool      // they end with an error that says that their checksum is another
	running int
	most    int // answers at the same time
}

func (s *shelf) List(context.Context, func([]fetch.Entry) error) error { return nil }
func (s *shelf) Close() error                                          { return nil }

func (s *shelf) Open(_ context.Context, e fetch.Entry, offset int64) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = append(s.opened, fmt.Sprint(e.Name, "@", offset))
	text, ok := s.files[e.Name]
	switch {
	case s.refuse != nil:
		return nil, s.refuse
	case !ok:
		return nil, fetch.Failf(fetch.NotFound, "there is no such object")
	case e.Tag != tagOf(text):
		return nil, fetch.Failf(fetch.Changed, "it is another one now")
	}
	if s.twist != nil {
		text = s.twist(text)
	}
	text = text[min(int(offset), len(text)):]
	if s.cut > 0 {
		text = text[:min(s.cut, len(text))]
	}
	s.running++
	s.most = max(s.most, s.running)
	a := &answer{Reader: strings.NewReader(text), of: s}
	if offset == 0 {
		a.sum = s.sum
	}
	if s.wrong {
		a.Reader = io.MultiReader(a.Reader, iotest.ErrReader(errors.New("checksum did not match")))
	}
	return a, nil
}

type answer struct {
	io.Reader
	of  *shelf
	sum place.Sum
}

func (a *answer) Sum() place.Sum { return a.sum }

func (a *answer) Close() error {
	a.of.mu.Lock()
	a.of.running--
	a.of.mu.Unlock()
	return nil
}

func tagOf(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:8] }

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// entry describes a file as a list of the shelf does.
func (s *shelf) entry(name string) fetch.Entry {
	text := s.files[name]
	return fetch.Entry{Name: name, Size: int64(len(text)), Tag: tagOf(text), Changed: 1}
}

// get runs a request and returns the files that are there, with how many bytes the network brought, and failures by name.
func get(t *testing.T, s *shelf, folder string, entries ...fetch.Entry) (files map[string]int64, failed map[string]string) {
	t.Helper()
	var out bytes.Buffer
	ask, err := json.Marshal(fetch.Request{Version: 1, Command: fetch.Get, URL: "x://", Folder: folder, Files: entries})
	if err != nil {
		t.Fatal(err)
	}
	in, write := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = fetch.Serve(t.Context(), in, &out, func(ctx context.Context, r *fetch.Request, to fetch.Replies) error {
			defer write.Close()
			return Get(ctx, s, r, to)
		})
	}()
	if _, err := write.Write(append(ask, '\n')); err != nil {
		t.Fatal(err)
	}
	<-done
	files, failed = map[string]int64{}, map[string]string{}
	for line := range strings.Lines(out.String()) {
		var r fetch.Reply
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.File != nil {
			files[r.File.Name] = r.File.Received
			if data, err := os.ReadFile(filepath.Join(folder, "files", r.File.SHA256)); err != nil || digestOf(string(data)) != r.File.SHA256 {
				t.Errorf("%s: the file of digest %s: %v", r.File.Name, r.File.SHA256, err)
			}
		}
		if r.Failure != nil {
			failed[r.Failure.Object] = r.Failure.Kind
		}
	}
	return files, failed
}

func TestAFileIsFetchedOnce(t *testing.T) {
	s, folder := &shelf{files: map[string]string{"a/1/m": "weights", "a/2/m": "weights", "a/2/n": ""}}, t.TempDir()
	one, two, empty := s.entry("a/1/m"), s.entry("a/2/m"), s.entry("a/2/n")
	sum := md5.Sum([]byte("weights"))
	one.MD5, two.MD5 = hex.EncodeToString(sum[:]), hex.EncodeToString(sum[:])
	files, failed := get(t, s, folder, one, two, empty)
	if len(files) != 3 || files["a/1/m"]+files["a/2/m"] != 7 || len(failed) != 0 || len(s.opened) != 1 {
		t.Errorf("files %v, failed %v, opened %v", files, failed, s.opened)
	}
	files, _ = get(t, s, folder, one, two, empty)
	if len(files) != 3 || files["a/1/m"] != 0 || len(s.opened) != 1 {
		t.Errorf("again: files %v, opened %v", files, s.opened)
	}
}

func TestAnAnswerThatEndsEarlyIsContinued(t *testing.T) {
	s := &shelf{files: map[string]string{"m": strings.Repeat("0123456789", 10)}, cut: 30}
	files, failed := get(t, s, t.TempDir(), s.entry("m"))
	if files["m"] != 100 || len(failed) != 0 || strings.Join(s.opened, " ") != "m@0 m@30 m@60 m@90" {
		t.Errorf("files %v, failed %v, opened %v", files, failed, s.opened)
	}
}

func TestAPartOfAnEarlierRunIsContinued(t *testing.T) {
	s, folder := &shelf{files: map[string]string{"m": "0123456789"}}, t.TempDir()
	e := s.entry("m")
	lay(t, filepath.Join(folder, "parts", e.Key()), "0123")
	if files, failed := get(t, s, folder, e); files["m"] != 6 || len(failed) != 0 || s.opened[0] != "m@4" {
		t.Errorf("files %v, failed %v, opened %v", files, failed, s.opened)
	}
	for name, part := range map[string]string{"whole": "0123456789", "longer than the file": "0123456789abc"} {
		folder := t.TempDir()
		lay(t, filepath.Join(folder, "parts", e.Key()), part)
		if files, failed := get(t, s, folder, e); len(files) != 1 || len(failed) != 0 {
			t.Errorf("%s: files %v, failed %v", name, files, failed)
		}
	}
}

// lay writes a file.
func lay(t *testing.T, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// TestAfterEachStepTheNextRunEndsIt has the folder as a program leaves it that is killed at each step of a file, or a cut of
// the power.
func TestAfterEachStepTheNextRunEndsIt(t *testing.T) {
	s := &shelf{files: map[string]string{"m": "0123456789"}}
	e := s.entry("m")
	digest := digestOf("0123456789")
	for _, test := range []struct {
		name     string
		left     map[string]string
		received int64
	}{
		{"before the first byte", map[string]string{"parts/" + e.Key(): ""}, 10},
		{"in the middle", map[string]string{"parts/" + e.Key(): "01234"}, 5},
		{"before the key", map[string]string{"parts/" + e.Key(): "0123456789"}, 0},
		{"in the key", map[string]string{"parts/" + e.Key(): "0123456789", "keys/" + e.Key() + ".new": digest[:9]}, 0},
		{"behind the key", map[string]string{"parts/" + e.Key(): "0123456789", "keys/" + e.Key(): digest}, 0},
		{"at the end", map[string]string{"files/" + digest: "0123456789", "keys/" + e.Key(): digest}, 0},
		{"with half a key", map[string]string{"parts/" + e.Key(): "0123456789", "keys/" + e.Key(): digest[:9]}, 0},
		{"with another file", map[string]string{"files/" + digest: "0123456780", "keys/" + e.Key(): digest}, 10},
		{"with half a file", map[string]string{"files/" + digest: "01234", "keys/" + e.Key(): digest}, 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			folder := t.TempDir()
			for name, content := range test.left {
				lay(t, filepath.Join(folder, name), content)
			}
			if files, failed := get(t, s, folder, e); len(files) != 1 || files["m"] != test.received || len(failed) != 0 {
				t.Errorf("files %v, failed %v", files, failed)
			}
			if data, err := os.ReadFile(filepath.Join(folder, "files", digest)); string(data) != "0123456789" || Digest(folder, e) != digest {
				t.Errorf("the file holds %q, %v; the key says %s", data, err, Digest(folder, e))
			}
		})
	}
}

func TestWrongBytesAreNotKept(t *testing.T) {
	sum := md5.Sum([]byte("0123456789"))
	for name, test := range map[string]struct {
		twist func(string) string
		kind  string
	}{
		"flipped":     {func(text string) string { return "x" + text[1:] }, fetch.Corrupt},
		"too long":    {func(text string) string { return text + "more" }, fetch.Corrupt},
		"never whole": {func(text string) string { return text[:5] }, fetch.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			s, folder := &shelf{files: map[string]string{"m": "0123456789", "n": "good"}}, t.TempDir()
			e := s.entry("m")
			e.MD5, s.twist = hex.EncodeToString(sum[:]), test.twist
			files, failed := get(t, s, folder, e)
			if len(files) != 0 || failed["m"] != test.kind {
				t.Errorf("files %v, failed %v", files, failed)
			}
			if kept, _ := os.ReadDir(filepath.Join(folder, "files")); len(kept) != 0 {
				t.Errorf("%d files are there", len(kept))
			}
			s.twist = nil
			if files, failed := get(t, s, folder, e); len(files) != 1 || len(failed) != 0 {
				t.Errorf("afterwards: files %v, failed %v", files, failed)
			}
		})
	}
}

// TestWhichDigestsAreCompared has lists and answers that are known to be right in different ways. "0123456789" has another
// MD5 than the list says where that is not to be looked at.
func TestWhichDigestsAreCompared(t *testing.T) {
	const content = "0123456789"
	right, wrong := fmt.Sprintf("%x", md5.Sum([]byte(content))), fmt.Sprintf("%x", md5.Sum(nil))
	crc := func(text string) string {
		return fmt.Sprintf("%08x", crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli)))
	}
	for name, test := range map[string]struct {
		md5, crc32c string
		sum         place.Sum
		mismatch    bool // of the store's own checksum
		cut         int
		kind        string
	}{
		"the listed MD5":                        {md5: right},
		"a listed MD5 that is another":          {md5: wrong, kind: fetch.Corrupt},
		"of several answers":                    {md5: right, cut: 3},
		"of several answers, another":           {md5: wrong, cut: 3, kind: fetch.Corrupt},
		"the store's checksum":                  {md5: wrong, sum: place.SumVerified},
		"a store's checksum that is another":    {md5: right, sum: place.SumVerified, mismatch: true, kind: fetch.Corrupt},
		"the store's checksum, cut off":         {md5: right, sum: place.SumVerified, cut: 3},
		"the store's checksum, cut off, an MD5": {md5: wrong, sum: place.SumVerified, cut: 3, kind: fetch.Corrupt},
		"none":                                  {md5: wrong, sum: place.SumNone},
		"the listed CRC32C":                     {md5: wrong, crc32c: crc(content)},
		"a listed CRC32C that is another":       {md5: right, crc32c: crc(""), kind: fetch.Corrupt},
		"a listed CRC32C of several answers":    {md5: wrong, crc32c: crc(content), cut: 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := &shelf{files: map[string]string{"m": content}, sum: test.sum, wrong: test.mismatch, cut: test.cut}
			e := s.entry("m")
			e.MD5, e.CRC32C = test.md5, test.crc32c
			if _, failed := get(t, s, t.TempDir(), e); failed["m"] != test.kind {
				t.Errorf("it failed with %q, want %q", failed["m"], test.kind)
			}
		})
	}
}

// TestFilesOfManyBuffersAreWhole fetches files with more bytes than there is memory for, from answers that end anywhere.
func TestFilesOfManyBuffersAreWhole(t *testing.T) {
	s := &shelf{files: map[string]string{}, cut: 700<<10 + 7}
	var entries []fetch.Entry
	for i := range defaultParallel {
		text := strings.Repeat(fmt.Sprintf("%07d-", i), (4*maxBuffers*bufferBytes+i)/8)
		s.files[fmt.Sprint("f", i)] = text
		e := s.entry(fmt.Sprint("f", i))
		e.MD5 = fmt.Sprintf("%x", md5.Sum([]byte(text)))
		entries = append(entries, e)
	}
	files, failed := get(t, s, t.TempDir(), entries...)
	for i, e := range entries {
		if files[e.Name] != e.Size || len(failed) != 0 {
			t.Errorf("file %d: %d bytes came of %d, failed %v", i, files[e.Name], e.Size, failed)
		}
	}
}

func TestTheMemoryOfAFileIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool()
		for range maxBuffers {
			p.buffer()
		}
		var got atomic.Bool
		go func() {
			p.buffer()
			got.Store(true)
		}()
		synctest.Wait()
		if got.Load() {
			t.Errorf("there are more than %d buffers", maxBuffers)
		}
		p.release(make([]byte, bufferBytes))
		synctest.Wait()
		if !got.Load() {
			t.Error("a buffer that is free is not given")
		}
	})
}

// TestADiskThatIsFullHalfwayLeavesNothing bounds the size of files while one is fetched.
func TestADiskThatIsFullHalfwayLeavesNothing(t *testing.T) {
	s, folder := &shelf{files: map[string]string{"m": strings.Repeat("0123456789", 1<<19)}}, t.TempDir()
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	limit := func(size uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: old.Max}); err != nil {
			t.Fatal(err)
		}
	}
	limit(3 << 20)
	defer limit(old.Cur)
	files, failed := get(t, s, folder, s.entry("m"))
	if len(files) != 0 || failed["m"] != fetch.Exhausted {
		t.Errorf("files %v, failed %v", files, failed)
	}
	for _, name := range []string{"files", "keys", "parts"} {
		if left, _ := os.ReadDir(filepath.Join(folder, name)); len(left) != 0 {
			t.Errorf("%s has %v", name, left)
		}
	}
	limit(old.Cur)
	if files, failed := get(t, s, folder, s.entry("m")); len(files) != 1 || len(failed) != 0 {
		t.Errorf("afterwards: files %v, failed %v", files, failed)
	}
}

func TestAFileThatFailsIsNamedAndTheOthersCome(t *testing.T) {
	s := &shelf{files: map[string]string{"changed": "old", "good": "g"}}
	changed, gone := s.entry("changed"), fetch.Entry{Name: "gone", Size: 1}
	s.files["changed"] = "new"
	files, failed := get(t, s, t.TempDir(), changed, gone, s.entry("good"))
	if len(files) != 1 || failed["changed"] != fetch.Changed || failed["gone"] != fetch.NotFound {
		t.Errorf("files %v, failed %v", files, failed)
	}
	s.refuse = fetch.Failf(fetch.Denied, "no")
	files, failed = get(t, s, t.TempDir(), s.entry("good"))
	if len(files) != 0 || failed["good"] != fetch.Denied || failed[""] != fetch.Denied {
		t.Errorf("files %v, failed %v", files, failed)
	}
}

func TestFilesThatDoNotFitAreNotBegun(t *testing.T) {
	s, folder := &shelf{files: map[string]string{"m": "x"}}, t.TempDir()
	e := s.entry("m")
	e.Size = 1 << 60
	if files, failed := get(t, s, folder, e); len(files) != 0 || failed[""] != fetch.Exhausted || len(s.opened) != 0 {
		t.Errorf("files %v, failed %v, opened %v", files, failed, s.opened)
	}
}

func TestSomeFilesAreFetchedAtTheSameTime(t *testing.T) {
	s := &shelf{files: map[string]string{}}
	var entries []fetch.Entry
	for i := range 300 {
		name := fmt.Sprint("f", i)
		s.files[name] = name
		entries = append(entries, s.entry(name))
	}
	if files, failed := get(t, s, t.TempDir(), entries...); len(files) != 300 || len(failed) != 0 || s.most > defaultParallel {
		t.Errorf("%d files, failed %v, %d at the same time", len(files), failed, s.most)
	}
}
