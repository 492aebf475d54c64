// Package kernel holds the native helpers that a step may call instead of its own loops: reading pictures, resizing,
// normalising, softmax, top-k and non-maximum suppression. They work on plain slices, check every size, and look at a
// Check between rows, so that a step can be stopped inside them. docs/steps-abi.md says what each one computes.
package kernel

import "fmt"

// Bounds of the kernels.
const (
	MaxPixels   = 1 << 24 // of a picture, decoded or resized: 16.8 million, such as 4096 x 4096
	MaxSide     = 1 << 15 // of a picture, in pixels
	MaxFile     = 64 << 20
	MaxChannels = 4
	MaxRows     = 1 << 20 // of softmax and top-k
	MaxK        = 1 << 16
	MaxBoxes    = 1 << 16 // of nms
	MaxKept     = 1 << 12
)

// Check is called now and then in the middle of work; it does not return when the work is to end.
type Check func()

// stride is how many elements are worked on between two calls of a Check, about: some hundred microseconds.
const stride = 1 << 16

// pacer calls a Check after every stride of work.
type pacer struct {
	check Check
	work  int
}

func (p *pacer) add(work int) {
	if p.work += work; p.work >= stride {
		p.work = 0
		p.check()
	}
}

// each calls f for 0 to n-1, every time work of that much, and looks at the Check between runs of them.
func (p *pacer) each(n, work int, f func(i int)) {
	run := max(stride/work, 1)
	for begin := 0; begin < n; begin += run {
		end := min(begin+run, n)
		for i := begin; i < end; i++ {
			f(i)
		}
		p.add((end - begin) * work)
	}
}

// Size is that of a picture.
type Size struct{ Width, Height, Channels int }

// Bytes returns how many bytes its pixels take. The size has been checked.
func (s Size) Bytes() int { return s.Width * s.Height * s.Channels }

// Valid tells what is wrong with a size, nil when nothing is.
func (s Size) Valid() error {
	switch {
	case s.Width < 1 || s.Height < 1 || s.Width > MaxSide || s.Height > MaxSide:
		return fmt.Errorf("a picture of %d x %d pixels: each side is 1 to %d", s.Width, s.Height, MaxSide)
	case s.Width*s.Height > MaxPixels:
		return fmt.Errorf("a picture of %d x %d pixels: at most %d pixels are allowed", s.Width, s.Height, MaxPixels)
	case s.Channels < 1 || s.Channels > MaxChannels:
		return fmt.Errorf("%d channels: want 1 to %d", s.Channels, MaxChannels)
	}
	return nil
}
