package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	stdlib "image/jpeg"
	"image/png"
	"io"

	"golang.org/x/image/webp"

	"github.com/edgewise-ai/edgewise/wasm/kernel/jpeg"
)

// Format is the form of a picture's file.
type Format uint32

// The formats, by their numbers in the ABI. Each has a row in formatTable.
const (
	JPEG Format = 1 + iota
	PNG
	WebP

	formats // is above all formats
)

// formatTable says of each format how its files begin and who reads them. Package jpeg reads most JPEG files first.
var formatTable = [formats]struct {
	name, magic string // '?' in magic stands for any byte
	header      func(io.Reader) (image.Config, error)
	decode      func(io.Reader) (image.Image, error)
}{
	JPEG: {"JPEG", "\xff\xd8", stdlib.DecodeConfig, stdlib.Decode},
	PNG:  {"PNG", "\x89PNG\r\n\x1a\n", png.DecodeConfig, png.Decode},
	WebP: {"WebP", "RIFF????WEBP", webp.DecodeConfig, webp.Decode},
}

// Formats returns every format, in order. Lists of them outside of this package are tested against it.
func Formats() []Format {
	var all []Format
	for f := JPEG; f < formats; f++ {
		all = append(all, f)
	}
	return all
}

// String returns the name of the format, such as JPEG.
func (f Format) String() string {
	if f < formats {
		return formatTable[f].name
	}
	return fmt.Sprintf("Format(%d)", uint32(f))
}

// formatOf returns the format of a file by its first bytes. Error: it is of none.
func formatOf(file []byte) (Format, error) {
	for f := JPEG; f < formats; f++ {
		if begins(file, formatTable[f].magic) {
			return f, nil
		}
	}
	return 0, fmt.Errorf("the file's format is unknown: want one of %v", Formats())
}

func begins(file []byte, magic string) bool {
	if len(file) < len(magic) {
		return false
	}
	for i := range len(magic) {
		if magic[i] != '?' && magic[i] != file[i] {
			return false
		}
	}
	return true
}

// Info is what the header of a picture's file says.
type Info struct {
	Size
	Format Format
	turn   int // EXIF orientation, 1 to 8
}

// ReadInfo reads a header. With turned, the size is that after the EXIF orientation.
func ReadInfo(file []byte, turned bool) (Info, error) {
	info, err := readInfo(file)
	if err != nil {
		return Info{}, err
	}
	if turned && info.turn >= 5 {
		info.Width, info.Height = info.Height, info.Width
	}
	return info, nil
}

func readInfo(file []byte) (Info, error) {
	if len(file) > MaxFile {
		return Info{}, fmt.Errorf("a picture's file of %d bytes: at most %d are allowed", len(file), MaxFile)
	}
	format, err := formatOf(file)
	if err != nil {
		return Info{}, err
	}
	info := Info{Format: format, turn: 1}
	if format == JPEG {
		info.turn = Orientation(file)
	}
	config, err := formatTable[format].header(bytes.NewReader(file))
	if err != nil {
		return Info{}, fmt.Errorf("the picture's header: %w", err)
	}
	info.Width, info.Height, info.Channels = config.Width, config.Height, channels(config.ColorModel)
	return info, info.Valid()
}

func channels(m color.Model) int {
	switch m {
	case color.GrayModel, color.Gray16Model:
		return 1
	case color.YCbCrModel, color.CMYKModel:
		return 3
	case color.RGBAModel, color.RGBA64Model: // what the PNG reader says of pictures without alpha
		return 3
	}
	if palette, ok := m.(color.Palette); ok {
		for _, c := range palette {
			if _, _, _, a := c.RGBA(); a != 0xffff {
				return 4
			}
		}
		return 3
	}
	return 4
}

// checked is a file that is read with a Check at every call: decoders read in small pieces.
type checked struct {
	io.Reader
	check Check
}

func (r checked) Read(p []byte) (int, error) {
	r.check()
	return r.Reader.Read(p)
}

// Decode decodes a picture into dst, which has room for its pixels with the channels given, and returns the bytes
// written. The header is held against MaxPixels and dst before a pixel is decoded.
func Decode(dst, file []byte, count int, turned bool, check Check) (int, error) {
	info, err := readInfo(file)
	if err != nil {
		return 0, err
	}
	if count != 1 && count != 3 && count != 4 {
		return 0, fmt.Errorf("channels is %d: want 1, 3 or 4", count)
	}
	size := Size{info.Width, info.Height, count}
	if len(dst) < size.Bytes() {
		return 0, fmt.Errorf("dst_len is %d: %d x %d pixels with %d channels take %d bytes", len(dst), size.Width,
			size.Height, count, size.Bytes())
	}
	if !turned || info.turn == 1 {
		return size.Bytes(), info.decode(dst, file, count, check)
	}
	straight := make([]byte, size.Bytes())
	if err := info.decode(straight, file, count, check); err != nil {
		return 0, err
	}
	Turn(dst, straight, size, info.turn, check)
	return size.Bytes(), nil
}

// decode writes the pixels of a file as they stand there.
func (i Info) decode(dst, file []byte, count int, check Check) error {
	if i.Format == JPEG {
		p, err := jpeg.Open(file)
		if err == nil {
			err = p.Decode(dst, count, check)
		}
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, jpeg.ErrOther):
			return fmt.Errorf("the picture: %w", err)
		}
	}
	img, err := formatTable[i.Format].decode(checked{bytes.NewReader(file), check})
	if err != nil {
		return fmt.Errorf("the picture: %w", err)
	}
	if b := img.Bounds(); b.Dx() != i.Width || b.Dy() != i.Height {
		return fmt.Errorf("the picture has %d x %d pixels, its header says %d x %d", b.Dx(), b.Dy(), i.Width, i.Height)
	}
	check()
	pixels(dst, img, count, check)
	return nil
}

// pixels writes a picture's pixels. Grey and the light of colours are copied; all else goes through package draw.
func pixels(dst []byte, img image.Image, count int, check Check) {
	b := img.Bounds()
	p := pacer{check: check}
	row := image.NewNRGBA(image.Rect(0, 0, b.Dx(), 1))
	var into draw.Image = row
	switch img.(type) {
	case *image.YCbCr, *image.Gray: // opaque, so that both forms have the same bytes; package draw is fast for this one
		into = &image.RGBA{Pix: row.Pix, Stride: row.Stride, Rect: row.Rect}
	}
	for y := b.Min.Y; y < b.Max.Y; y++ {
		p.add(32 * b.Dx())
		if light := grey(img, y); count == 1 && light != nil {
			dst = dst[copy(dst, light):]
			continue
		}
		pix := row.Pix
		if source, ok := img.(*image.NRGBA); ok {
			pix = source.Pix[source.PixOffset(b.Min.X, y):][:4*b.Dx()]
		} else {
			draw.Draw(into, row.Rect, img, image.Pt(b.Min.X, y), draw.Src)
		}
		dst = rowNRGBA(dst, pix, count)
	}
}

// grey returns a row of a picture's light, nil when it has none by itself.
func grey(img image.Image, y int) []byte {
	b := img.Bounds()
	switch img := img.(type) {
	case *image.YCbCr:
		return img.Y[img.YOffset(b.Min.X, y):][:b.Dx()]
	case *image.Gray:
		return img.Pix[img.PixOffset(b.Min.X, y):][:b.Dx()]
	}
	return nil
}

// rowNRGBA lays transparent pixels over black where dst has no alpha.
func rowNRGBA(dst, row []byte, count int) []byte {
	for ; len(row) > 0; row = row[4:] {
		r, g, b, a := row[0], row[1], row[2], row[3]
		if count != 4 && a != 255 {
			r, g, b = over(r, a), over(g, a), over(b, a)
		}
		switch count {
		case 1:
			dst[0] = uint8((19595*uint32(r) + 38470*uint32(g) + 7471*uint32(b) + 1<<15) >> 16)
		case 3:
			dst[0], dst[1], dst[2] = r, g, b
		case 4:
			dst[0], dst[1], dst[2], dst[3] = r, g, b, a
		}
		dst = dst[count:]
	}
	return dst
}

func over(v, a uint8) uint8 { return uint8((uint32(v)*uint32(a) + 127) / 255) }
