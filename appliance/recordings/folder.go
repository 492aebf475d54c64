package recordings

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/example"
)

// MaxRequests bounds the recorded requests of one model that are kept at a time. The oldest go first.
const MaxRequests = 50_000

const (
	suffix     = ".example"
	unfinished = ".part" // of a file that is being written
	blockBytes = 4096    // what a file takes on the disk is counted in these
)

// entry is one recorded request. Its file has it in its name, so that a start reads no file.
type entry struct {
	number  uint64
	version int64
	took    time.Duration // in microseconds
	failed  bool
	bytes   int64     // on the disk
	at      time.Time // when it was recorded
}

// file returns the name of the entry's file.
func (e *entry) file() string {
	end := "answered"
	if e.failed {
		end = "failed"
	}
	return fmt.Sprintf("%012d.%d.%d.%s%s", e.number, e.version, e.took.Microseconds(), end, suffix)
}

// parseEntry reads the name of a file. ok is false for a name that file does not make.
func parseEntry(name string) (e entry, ok bool) {
	var micro int64
	var end string
	text, ok := strings.CutSuffix(name, suffix)
	if !ok {
		return e, false
	}
	if n, err := fmt.Sscanf(text, "%d.%d.%d.%s", &e.number, &e.version, &micro, &end); n != 4 || err != nil {
		return e, false
	}
	e.took, e.failed = time.Duration(micro)*time.Microsecond, end == "failed"
	return e, e.file() == name
}

func onDisk(size int64) int64 { return (size + blockBytes - 1) / blockBytes * blockBytes }

// folder has the recorded requests of one model, a file each. It is safe for concurrent use.
type folder struct {
	path string

	mu      sync.Mutex // guards the fields below and the files
	entries []entry    // by number
	bytes   int64
	last    uint64
}

// openFolder reads which requests a folder has; it may be missing. What was being written is removed. Ages are taken now:
// a clock that is set later does not change them, and nothing is from the future.
func openFolder(path string) (*folder, error) {
	f, now := &folder{path: path}, time.Now()
	files, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, file := range files {
		if strings.HasSuffix(file.Name(), unfinished) {
			if err := os.Remove(filepath.Join(path, file.Name())); err != nil {
				return nil, err
			}
		}
		e, ok := parseEntry(file.Name())
		if !ok {
			continue
		}
		info, err := file.Info()
		if err != nil {
			return nil, err
		}
		e.bytes, e.at = onDisk(info.Size()), now.Add(-max(0, now.Sub(info.ModTime())))
		f.entries = append(f.entries, e)
		f.bytes += e.bytes
		f.last = max(f.last, e.number)
	}
	slices.SortFunc(f.entries, func(a, b entry) int { return cmp.Compare(a.number, b.number) })
	return f, nil
}

// add writes a request under the next number. It is not synced: a power cut may cost the latest ones.
func (f *folder) add(e entry, data []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := os.MkdirAll(f.path, 0o700); err != nil {
		return err
	}
	e.number, e.bytes = f.last+1, onDisk(int64(len(data)))
	path := filepath.Join(f.path, e.file())
	err := os.WriteFile(path+unfinished, data, 0o600)
	if err == nil {
		err = os.Rename(path+unfinished, path)
	}
	if err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(path+unfinished)))
	}
	f.last, f.bytes = e.number, f.bytes+e.bytes
	f.entries = append(f.entries, e)
	return nil
}

// trim removes the oldest requests as long as there are more than most, they take more than size bytes, or they were
// recorded before the time since.
func (f *folder) trim(most int, size int64, since time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.entries) > 0 {
		oldest := &f.entries[0]
		if len(f.entries) <= most && f.bytes <= size && !oldest.at.Before(since) {
			return nil
		}
		if err := f.drop(0); err != nil {
			return err
		}
	}
	return nil
}

// drop removes the entry at a place. f.mu is held.
func (f *folder) drop(at int) error {
	e := f.entries[at]
	if err := ignoreMissing(os.Remove(filepath.Join(f.path, e.file()))); err != nil {
		return err
	}
	f.bytes -= e.bytes
	if at == 0 {
		f.entries = f.entries[1:] // append copies the rest to new memory in time
	} else {
		f.entries = slices.Delete(f.entries, at, at+1)
	}
	return nil
}

// usage returns how many requests there are, what they take on the disk, and when the oldest was recorded.
func (f *folder) usage() (requests int, bytes int64, oldest time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.entries) > 0 {
		oldest = f.entries[0].at
	}
	return len(f.entries), f.bytes, oldest
}

// before returns the latest entries with numbers below number, 0 for any, latest first, at most limit.
func (f *folder) before(number uint64, limit int) []entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	end := len(f.entries)
	if number > 0 {
		end, _ = f.find(number)
	}
	list := slices.Clone(f.entries[max(0, end-limit):end])
	slices.Reverse(list)
	return list
}

// find returns where the entry with a number is, or would be. f.mu is held.
func (f *folder) find(number uint64) (at int, found bool) {
	return slices.BinarySearchFunc(f.entries, number, func(e entry, n uint64) int { return cmp.Compare(e.number, n) })
}

// read returns the bytes of a request. Errors: NotFound, Corrupt for what a loss of power has left.
func (f *folder) read(number uint64) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, found := f.find(number)
	if !found {
		return nil, f.missing(number)
	}
	data, err := os.ReadFile(filepath.Join(f.path, f.entries[at].file()))
	if err != nil {
		return nil, err
	}
	if _, err := example.Decode(data); err != nil {
		return nil, edgewise.Errorf("recordings.read", edgewise.Corrupt, "recorded request %d of model %q is damaged: %w", number,
			filepath.Base(f.path), err)
	}
	return data, nil
}

// move gives the folder another path. What is there is removed.
func (f *folder) move(path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	if err := ignoreMissing(os.Rename(f.path, path)); err != nil {
		return err
	}
	f.path = path
	return nil
}

// remove deletes a request. Errors: NotFound.
func (f *folder) remove(number uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, found := f.find(number)
	if !found {
		return f.missing(number)
	}
	return f.drop(at)
}

// removeAll deletes every request. Numbers go on behind the last one until the box starts again.
func (f *folder) removeAll() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries, f.bytes = nil, 0
	return os.RemoveAll(f.path)
}

func (f *folder) missing(number uint64) error {
	return edgewise.Errorf("recordings.find", edgewise.NotFound, "model %q has no recorded request %d",
		filepath.Base(f.path), number)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
