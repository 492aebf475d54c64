package kernel_test

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/wasm/kernel"
)

func none() {}

// gradient is a picture whose pixels all differ.
func gradient(w, h int) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			img.SetNRGBA(x, y, color.NRGBA{uint8(10 * x), uint8(20 * y), uint8(x + y), 255})
		}
	}
	return img
}

func encode(t testing.TB, img image.Image, format string) []byte {
	t.Helper()
	var b bytes.Buffer
	var err error
	switch format {
	case "png":
		err = png.Encode(&b, img)
	case "jpeg":
		err = jpeg.Encode(&b, img, &jpeg.Options{Quality: 100})
	case "gif":
		err = gif.Encode(&b, img, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestDecodedPixelsAreTheLibrarys(t *testing.T) {
	gray := image.NewGray(image.Rect(0, 0, 5, 3))
	for i := range gray.Pix {
		gray.Pix[i] = uint8(17 * i)
	}
	half := gradient(4, 4)
	for i := 3; i < len(half.Pix); i += 4 {
		half.Pix[i] = uint8(i)
	}
	paletted := image.NewPaletted(image.Rect(0, 0, 3, 3), color.Palette{color.NRGBA{1, 2, 3, 255}, color.NRGBA{200, 100, 50, 255}})
	paletted.Pix[4] = 1
	deep := image.NewNRGBA64(image.Rect(0, 0, 2, 2))
	deep.SetNRGBA64(1, 1, color.NRGBA64{0xffff, 0x8000, 0x1234, 0xffff})
	tests := []struct {
		name, format string
		img          image.Image
		info         kernel.Info
		off          int // that a colour may be
	}{
		{"png", "png", gradient(7, 5), kernel.Info{Size: kernel.Size{Width: 7, Height: 5, Channels: 3}, Format: kernel.PNG}, 0},
		{"png with alpha", "png", half, kernel.Info{Size: kernel.Size{Width: 4, Height: 4, Channels: 4}, Format: kernel.PNG}, 0},
		{"grey png", "png", gray, kernel.Info{Size: kernel.Size{Width: 5, Height: 3, Channels: 1}, Format: kernel.PNG}, 0},
		{"png with a palette", "png", paletted, kernel.Info{Size: kernel.Size{Width: 3, Height: 3, Channels: 3}, Format: kernel.PNG}, 0},
		{"png of 16 bits", "png", deep, kernel.Info{Size: kernel.Size{Width: 2, Height: 2, Channels: 4}, Format: kernel.PNG}, 0},
		{"jpeg", "jpeg", gradient(17, 9), kernel.Info{Size: kernel.Size{Width: 17, Height: 9, Channels: 3}, Format: kernel.JPEG}, 3},
		{"grey jpeg", "jpeg", gray, kernel.Info{Size: kernel.Size{Width: 5, Height: 3, Channels: 1}, Format: kernel.JPEG}, 3},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			file := encode(t, test.img, test.format)
			info, err := kernel.ReadInfo(file, true)
			if err != nil || info.Size != test.info.Size || info.Format != test.info.Format {
				t.Errorf("info %+v, %v; want %+v", info, err, test.info)
			}
			want, _, err := image.Decode(bytes.NewReader(file))
			if err != nil {
				t.Fatal(err)
			}
			w, h := info.Width, info.Height
			dst := make([]byte, 4*w*h)
			if n, err := kernel.Decode(dst, file, 4, false, none); err != nil || n != 4*w*h {
				t.Fatalf("%d, %v", n, err)
			}
			rgb := make([]byte, 3*w*h)
			if _, err := kernel.Decode(rgb, file, 3, false, none); err != nil {
				t.Fatal(err)
			}
			for i := range w * h {
				c := color.NRGBAModel.Convert(want.At(want.Bounds().Min.X+i%w, want.Bounds().Min.Y+i/w)).(color.NRGBA)
				if got := (color.NRGBA{dst[4*i], dst[4*i+1], dst[4*i+2], dst[4*i+3]}); !near(got, c, test.off) {
					t.Errorf("pixel %d is %v, want %v", i, got, c)
				}
				if got := [3]byte(rgb[3*i:]); c.A == 255 && !near(color.NRGBA{got[0], got[1], got[2], 255}, c, test.off) ||
					c.A == 0 && got != [3]byte{} {
					t.Errorf("pixel %d without alpha is %v, want %v", i, got, c)
				}
			}
			grey := make([]byte, w*h)
			if _, err := kernel.Decode(grey, file, 1, false, none); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// near tells whether two colours are the same, or nearly so.
func near(a, b color.NRGBA, off int) bool {
	apart := func(x, y uint8) bool { return int(x)-int(y) > off || int(y)-int(x) > off }
	return !apart(a.R, b.R) && !apart(a.G, b.G) && !apart(a.B, b.B) && a.A == b.A
}

// smallWebP is a picture of 1 x 1 pixels, lossy.
const smallWebP = "UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA"

func TestWebPIsDecoded(t *testing.T) {
	file, err := base64.StdEncoding.DecodeString(smallWebP)
	if err != nil {
		t.Fatal(err)
	}
	info, err := kernel.ReadInfo(file, false)
	if err != nil || info.Format != kernel.WebP || info.Width != 1 || info.Height != 1 {
		t.Fatalf("%+v, %v", info, err)
	}
	dst := make([]byte, 3)
	if n, err := kernel.Decode(dst, file, 3, false, none); err != nil || n != 3 {
		t.Errorf("%d, %v", n, err)
	}
}

// oriented puts an EXIF orientation into a JPEG file.
func oriented(file []byte, value byte) []byte {
	exif := []byte("\xff\xe1\x00\x22Exif\x00\x00MM\x00\x2a\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00" +
		string(value) + "\x00\x00\x00\x00\x00\x00")
	return append(append(append([]byte{}, file[:2]...), exif...), file[2:]...)
}

// TestPicturesAreTurned looks where the corner of a picture goes: the first pixel is black, all others are white.
func TestPicturesAreTurned(t *testing.T) {
	img := image.NewGray(image.Rect(0, 0, 32, 16))
	for i := range img.Pix {
		img.Pix[i] = 255
	}
	for y := range 8 {
		for x := range 8 {
			img.Pix[y*32+x] = 0
		}
	}
	corners := map[byte][2]int{1: {0, 0}, 2: {1, 0}, 3: {1, 1}, 4: {0, 1}, 5: {0, 0}, 6: {1, 0}, 7: {1, 1}, 8: {0, 1}}
	for value, corner := range corners {
		file := oriented(encode(t, img, "jpeg"), value)
		info, err := kernel.ReadInfo(file, true)
		if err != nil {
			t.Fatal(err)
		}
		if turned := info.Width == 16; turned != (value >= 5) {
			t.Errorf("orientation %d: %d x %d", value, info.Width, info.Height)
		}
		dst := make([]byte, 32*16)
		if _, err := kernel.Decode(dst, file, 1, true, none); err != nil {
			t.Fatal(err)
		}
		for y := range 2 {
			for x := range 2 {
				at := y*(info.Height-1)*info.Width + x*(info.Width-1)
				if black := dst[at] < 40; black != (corner == [2]int{x, y}) {
					t.Errorf("orientation %d: the corner %d,%d is %d", value, x, y, dst[at])
				}
			}
		}
	}
}

func TestBadPicturesAreRefused(t *testing.T) {
	good := encode(t, gradient(8, 8), "png")
	huge := bytes.Clone(good)
	copy(huge[16:], "\x00\x01\x00\x00\x00\x00\x00\x01")
	tests := []struct {
		name     string
		file     []byte
		room     int
		channels int
		want     string
	}{
		{"nothing", nil, 100, 3, "format is unknown: want one of"},
		{"another format", encode(t, gradient(8, 8), "gif"), 1000, 3, "format is unknown: want one of"},
		{"cut", good[:len(good)/2], 1000, 3, "the picture: "},
		{"a header alone", good[:10], 1000, 3, "the picture's header: "},
		{"no room", good, 191, 3, "dst_len is 191: 8 x 8 pixels with 3 channels take 192 bytes"},
		{"channels", good, 1000, 2, "channels is 2: want 1, 3 or 4"},
		{"a forged header", huge, 1000, 3, "the picture's header: "},
		{"too large a file", make([]byte, kernel.MaxFile+1), 1000, 3, "at most 67108864 are allowed"},
	}
	for _, test := range tests {
		_, err := kernel.Decode(make([]byte, test.room), test.file, test.channels, false, none)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", test.name, err, test.want)
		}
	}
}

// FuzzDecode holds that no file makes the decoder panic or write elsewhere.
func FuzzDecode(f *testing.F) {
	f.Add(encode(f, gradient(3, 3), "png"))
	f.Add(oriented(encode(f, gradient(16, 8), "jpeg"), 6))
	webp, _ := base64.StdEncoding.DecodeString(smallWebP)
	f.Add(webp)
	f.Fuzz(func(t *testing.T, file []byte) {
		room := make([]byte, 1<<16)
		n, err := kernel.Decode(room[:1<<15], file, 3, true, none)
		if err == nil && n > 1<<15 {
			t.Errorf("%d bytes", n)
		}
		if !bytes.Equal(room[1<<15:], make([]byte, 1<<15)) {
			t.Error("it wrote behind dst")
		}
	})
}
