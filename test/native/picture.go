package native

import (
	"image"

	"github.com/edgewise-ai/edgewise/wasm/kernel"
)

// Picture is a picture of red, green and blue bytes, interleaved.
type Picture struct {
	Width, Height int
	Pixels        []byte
}

// Decode reads a JPEG, PNG or WebP file with the decoder that steps call, and turns it upright.
func (p *Picture) Decode(file []byte) error {
	info, err := kernel.ReadInfo(file, true)
	if err != nil {
		return err
	}
	*p = Picture{info.Width, info.Height, grown(p.Pixels, 3*info.Width*info.Height)}
	_, err = kernel.Decode(p.Pixels, file, 3, true, func() {})
	return err
}

// whole is all of a picture.
func (p *Picture) whole() image.Rectangle { return image.Rect(0, 0, p.Width, p.Height) }

// grown returns a list of n elements, old where that has the room. The elements are any.
func grown[T any](old []T, n int) []T {
	if cap(old) < n {
		return make([]T, n)
	}
	return old[:n]
}
