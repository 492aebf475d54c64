package samples

import (
	"bytes"
	"image"
	"image/png"
	"math/rand/v2"
)

// Scene draws a picture with edges, gradients and noise.
func Scene(width, height int, seed uint64) *image.RGBA {
	r := rand.New(rand.NewPCG(seed, 1))
	picture := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			p := picture.Pix[picture.PixOffset(x, y):]
			p[0] = byte(x * 255 / width)
			p[1] = byte((y*255/height + x/7*40) & 255)
			p[2] = byte(r.IntN(256))
			p[3] = 255
		}
	}
	return picture
}

// PNG returns a picture as a PNG file. The picture is not empty.
func PNG(picture image.Image) ([]byte, error) {
	var file bytes.Buffer
	err := png.Encode(&file, picture)
	return file.Bytes(), err
}

// Regions is the heat map of PP-OCR's text detection for a picture with bars of text: level, slanted, upright, one too
// pale and one too small. It has room for five of them from 640 x 360 pixels on.
func Regions(random *rand.Rand, width, height int) []float32 {
	heat := make([]float32, width*height)
	bar := func(x, y, w, h, slope, p float64) {
		for j := range int(h) {
			for i := range int(w) {
				px, py := int(x)+i, int(y+slope*float64(i))+j
				if px >= 0 && px < width && py >= 0 && py < height {
					heat[py*width+px] = float32(p) + 0.05*random.Float32()
				}
			}
		}
	}
	bar(40, 50, 400, 20, 0, 0.9)
	bar(50, 140, 420, 16, 0.05, 0.85)
	bar(60, 220, 90, 24, 0, 0.8)
	bar(460, 215, 100, 20, -0.1, 0.8)
	bar(600, 60, 14, 180, 0, 0.9)
	bar(40, 300, 200, 14, 0, 0.45) // too pale
	bar(300, 300, 2, 2, 0, 0.9)    // too small
	return heat
}
