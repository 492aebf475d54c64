// Package recorded reads archives of recorded requests, sends them to a model again, and writes them in forms that other
// programs read.
package recorded

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/example"
	"github.com/edgewise-ai/edgewise/appliance/tarfile"
)

// In yields the recorded requests of an archive, in its order, until one cannot be read.
func In(archive io.Reader) iter.Seq2[*example.Example, error] {
	return func(yield func(*example.Example, error) bool) {
		r := tarfile.NewReader(archive)
		for {
			e, err := next(r)
			if errors.Is(err, io.EOF) || !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// next reads an entry of an archive; io.EOF behind the last one.
func next(r *tarfile.Reader) (*example.Example, error) {
	entry, err := r.Next()
	if err != nil {
		return nil, err
	}
	if entry.Size > example.MaxBytes {
		return nil, edgewise.Errorf("recorded.In", edgewise.TooLarge, "entry %.200q has %d bytes: at most %d are read", entry.Name,
			entry.Size, example.MaxBytes)
	}
	data := make([]byte, entry.Size)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, fmt.Errorf("entry %.200q: %w", entry.Name, err)
	}
	e, err := example.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("entry %.200q: %w", entry.Name, err)
	}
	return e, nil
}
