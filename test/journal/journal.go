// Package journal keeps what a part or a program under test says.
package journal

import (
	"bytes"
	"sync"
)

// Journal is a log that may be read while it is written. The zero value is empty.
type Journal struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

// Write adds to it. It does not fail.
func (j *Journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// String returns what was written until now.
func (j *Journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}
