package store

import "unsafe"

// ring is the memory of one upload. Its buffers begin where a page may begin, as writes past the page cache need it.
type ring [ringBuffers][]byte

func newRing() *ring {
	memory := make([]byte, ringBuffers*bufferBytes+directBlock)
	if past := int(uintptr(unsafe.Pointer(unsafe.SliceData(memory))) % directBlock); past > 0 {
		memory = memory[directBlock-past:]
	}
	var r ring
	for i := range r {
		r[i] = memory[i*bufferBytes : (i+1)*bufferBytes : (i+1)*bufferBytes]
	}
	return &r
}

// stage does one thing to every chunk, in their order, beside its caller.
type stage struct {
	chunks chan []byte // what waits
	done   chan struct{}
}

func startStage(do func([]byte)) *stage {
	s := &stage{chunks: make(chan []byte, ringBuffers-2), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for c := range s.chunks {
			do(c)
		}
	}()
	return s
}

// add passes c on, which must not change until ringBuffers-1 further calls, or finish, have returned.
func (s *stage) add(c []byte) { s.chunks <- c }

// finish waits for the last chunk.
func (s *stage) finish() {
	close(s.chunks)
	<-s.done
}
