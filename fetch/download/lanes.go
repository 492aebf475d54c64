package download

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Memory of a file that is received: 512 KiB. The buffers are small, so that what was received is written and hashed from the
// processor's caches, and so that the kernel takes the pages of the file from those that were used last: writes of 256 KiB
// and more took up to three times as much of its time.
const (
	bufferBytes = 32 << 10
	maxBuffers  = 16
)

// pool is the memory of a file. Its buffers come back when every lane has done with them.
type pool struct {
	free chan []byte
	made int // buffers
}

func newPool() *pool { return &pool{free: make(chan []byte, maxBuffers)} }

// buffer returns a buffer, and waits for one when all are in use. It is for one goroutine.
func (p *pool) buffer() []byte {
	select {
	case b := <-p.free:
		return b
	default:
	}
	if p.made < maxBuffers {
		p.made++
		return make([]byte, bufferBytes)
	}
	return <-p.free
}

// release takes a buffer back.
func (p *pool) release(b []byte) { p.free <- b[:bufferBytes] }

// chunk is a buffer that goes through lanes; the last one releases it.
type chunk struct {
	data []byte
	left atomic.Int32
}

// lane does one thing with the bytes of a file, in their order, beside what receives them.
type lane struct {
	in   chan *chunk
	done chan struct{}
}

// lanes are those of one file.
type lanes struct {
	pool   *pool
	each   []*lane
	inside sync.WaitGroup // chunks that a lane has not done with
}

// add starts a lane.
func (l *lanes) add(do func(data []byte)) *lane {
	added := &lane{in: make(chan *chunk, maxBuffers), done: make(chan struct{})}
	l.each = append(l.each, added)
	go func() {
		defer close(added.done)
		for c := range added.in {
			do(c.data)
			if c.left.Add(-1) == 0 {
				l.pool.release(c.data)
				l.inside.Done()
			}
		}
	}()
	return added
}

// send gives the bytes of a buffer to every lane.
func (l *lanes) send(data []byte) {
	if len(data) == 0 || len(l.each) == 0 {
		l.pool.release(data)
		return
	}
	c := &chunk{data: data}
	c.left.Store(int32(len(l.each)))
	l.inside.Add(1)
	for _, to := range l.each {
		to.in <- c
	}
}

// drain waits until every lane has done with what was sent.
func (l *lanes) drain() { l.inside.Wait() }

// end ends the lanes, which have done with what was sent then.
func (l *lanes) end() {
	for _, each := range l.each {
		close(each.in)
		<-each.done
	}
	l.each = nil
}

// read sends what a file has to the lanes, and returns how much that was.
func (l *lanes) read(from io.Reader) (size int64, err error) {
	for err == nil {
		buffer := l.pool.buffer()
		var n int
		n, err = io.ReadFull(from, buffer)
		size += int64(n)
		l.send(buffer[:n])
	}
	l.drain()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return size, err
}

// behindStep is how many bytes are written before the kernel is asked to bring them to the disk.
const behindStep = 16 << 20

// behind has the kernel bring a file to the disk while more of it comes. A disk that is slower than the network makes
// nobody wait: what is not begun is begun later, and at the latest when the file is synced.
type behind struct {
	ranges chan [2]int64 // from, to
	done   chan struct{}
	begun  int64 // bytes that the kernel was asked for
}

func startBehind(fd int, from int64) *behind {
	b := &behind{ranges: make(chan [2]int64, 1), done: make(chan struct{}), begun: from}
	go func() {
		defer close(b.done)
		for r := range b.ranges {
			_ = unix.SyncFileRange(fd, r[0], r[1]-r[0], unix.SYNC_FILE_RANGE_WRITE) // a hint
		}
	}()
	return b
}

// written says how much of the file is there.
func (b *behind) written(size int64) {
	if size-b.begun < behindStep {
		return
	}
	select {
	case b.ranges <- [2]int64{b.begun, size}:
		b.begun = size
	default: // the disk is busy
	}
}

func (b *behind) end() {
	close(b.ranges)
	<-b.done
}
