package tensorfile

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"
	"golang.org/x/image/webp"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/wasm/kernel"
)

// MaxPixels bounds a picture's width times its height. It is checked before any pixel is decoded. A picture at the
// bound takes 400 MB decoded, and about as much again while it is decoded.
const MaxPixels = 100_000_000

// ReadPicture reads a PNG, JPEG, GIF (its first frame), WebP, BMP or TIFF picture, told apart by content. The result is
// opaque (transparent pixels lie on white) and upright (a JPEG's EXIF orientation is applied), with its origin at 0,0.
// Errors: NotFound, Denied, Invalid, TooLarge (over MaxFileBytes or MaxPixels); the message names the file.
func ReadPicture(path string) (*image.RGBA, error) {
	data, err := readFile("tensorfile.ReadPicture", path)
	if err != nil {
		return nil, err
	}
	picture, err := DecodePicture(data)
	if err != nil {
		return nil, edgewise.Errorf("tensorfile.ReadPicture", kindOf(err), "%s: %w", path, err)
	}
	return picture, nil
}

type pictureFormat struct {
	name, magic string // '?' in magic stands for any byte
	config      func(io.Reader) (image.Config, error)
	decode      func(io.Reader) (image.Image, error)
}

func pictureFormats() []pictureFormat {
	return []pictureFormat{
		{"PNG", "\x89PNG\r\n\x1a\n", png.DecodeConfig, png.Decode},
		{"JPEG", "\xff\xd8\xff", jpeg.DecodeConfig, jpeg.Decode},
		{"GIF", "GIF8?a", gif.DecodeConfig, gif.Decode},
		{"WebP", "RIFF????WEBP", webp.DecodeConfig, webp.Decode},
		{"BMP", "BM", bmp.DecodeConfig, bmp.Decode},
		{"TIFF", "II*\x00", tiff.DecodeConfig, tiff.Decode},
		{"TIFF", "MM\x00*", tiff.DecodeConfig, tiff.Decode},
	}
}

// DecodePicture is ReadPicture for a picture in memory. Errors: Invalid, TooLarge.
func DecodePicture(data []byte) (*image.RGBA, error) {
	for _, format := range pictureFormats() {
		if !hasMagic(data, format.magic) {
			continue
		}
		picture, err := format.read(data)
		if err != nil {
			return nil, err
		}
		return upright(onWhite(picture), data), nil
	}
	return nil, edgewise.Errorf("tensorfile.DecodePicture", edgewise.Invalid, "not a picture: want PNG, JPEG, GIF, WebP, BMP or TIFF")
}

func hasMagic(data []byte, magic string) bool {
	if len(data) < len(magic) {
		return false
	}
	for i := range len(magic) {
		if magic[i] != '?' && magic[i] != data[i] {
			return false
		}
	}
	return true
}

func (f pictureFormat) read(data []byte) (image.Image, error) {
	config, err := f.config(bytes.NewReader(data))
	if err != nil {
		return nil, edgewise.Errorf("tensorfile.DecodePicture", edgewise.Invalid, "broken %s picture: %w", f.name, err)
	}
	if err := checkSize(config.Width, config.Height); err != nil {
		return nil, err
	}
	picture, err := f.decode(bytes.NewReader(data))
	if err != nil {
		return nil, edgewise.Errorf("tensorfile.DecodePicture", edgewise.Invalid, "broken %s picture: %w", f.name, err)
	}
	size := picture.Bounds().Size()
	return picture, checkSize(size.X, size.Y)
}

func checkSize(width, height int) error {
	if width < 1 || height < 1 {
		return edgewise.Errorf("tensorfile.DecodePicture", edgewise.Invalid, "a picture of %dx%d pixels has nothing in it", width, height)
	}
	if width > MaxPixels/height {
		return edgewise.Errorf("tensorfile.DecodePicture", edgewise.TooLarge,
			"a picture of %dx%d pixels: at most %d pixels are allowed", width, height, MaxPixels)
	}
	return nil
}

// upright returns a picture as the EXIF orientation of its file says.
func upright(picture *image.RGBA, file []byte) *image.RGBA {
	orientation := 1
	if hasMagic(file, "\xff\xd8") {
		orientation = kernel.Orientation(file)
	}
	if orientation == 1 {
		return picture
	}
	size := picture.Rect.Size()
	turned := image.Rect(0, 0, size.X, size.Y)
	if orientation >= 5 {
		turned = image.Rect(0, 0, size.Y, size.X)
	}
	result := image.NewRGBA(turned)
	kernel.Turn(result.Pix, picture.Pix, kernel.Size{Width: size.X, Height: size.Y, Channels: 4}, orientation, func() {})
	return result
}

// onWhite returns picture with its origin at 0,0 and white under its transparent parts.
func onWhite(picture image.Image) *image.RGBA {
	bounds := picture.Bounds()
	flat := image.NewRGBA(image.Rectangle{Max: bounds.Size()})
	if opaque, ok := picture.(interface{ Opaque() bool }); ok && opaque.Opaque() {
		draw.Draw(flat, flat.Rect, picture, bounds.Min, draw.Src)
		return flat
	}
	draw.Draw(flat, flat.Rect, image.NewUniform(color.White), image.Point{}, draw.Src)
	draw.Draw(flat, flat.Rect, picture, bounds.Min, draw.Over)
	return flat
}
