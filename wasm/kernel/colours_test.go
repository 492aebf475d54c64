package kernel

import (
	"bytes"
	"image"
	"image/color"
	"math/rand/v2"
	"testing"
)

// TestColoursAreThoseOfTheLibrary holds every subsampling, at odd sizes, against package color, pixel by pixel.
func TestColoursAreThoseOfTheLibrary(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for _, ratio := range []image.YCbCrSubsampleRatio{
		image.YCbCrSubsampleRatio444, image.YCbCrSubsampleRatio422, image.YCbCrSubsampleRatio420,
		image.YCbCrSubsampleRatio440, image.YCbCrSubsampleRatio411, image.YCbCrSubsampleRatio410,
	} {
		for _, part := range []image.Rectangle{
			image.Rect(0, 0, 7, 5), image.Rect(0, 0, 64, 3), image.Rect(3, 1, 22, 6),
			image.Rect(2, 2, 9, 9), image.Rect(5, 5, 6, 6),
		} {
			whole := image.NewYCbCr(image.Rect(0, 0, 64, 16), ratio)
			for _, plane := range [][]byte{whole.Y, whole.Cb, whole.Cr} {
				for i := range plane {
					plane[i] = byte(r.IntN(256))
				}
			}
			img := whole.SubImage(part).(*image.YCbCr)
			for _, count := range []int{1, 3, 4} {
				got := make([]byte, part.Dx()*part.Dy()*count)
				pixels(got, img, count, func() {})
				var want []byte
				for y := part.Min.Y; y < part.Max.Y; y++ {
					for x := part.Min.X; x < part.Max.X; x++ {
						c := img.YCbCrAt(x, y)
						red, green, blue := color.YCbCrToRGB(c.Y, c.Cb, c.Cr)
						want = append(want, map[int][]byte{1: {c.Y}, 3: {red, green, blue}, 4: {red, green, blue, 255}}[count]...)
					}
				}
				if !bytes.Equal(got, want) {
					t.Fatalf("%v, %v, %d channels: got %v, want %v", ratio, part, count, got, want)
				}
			}
		}
	}
}
