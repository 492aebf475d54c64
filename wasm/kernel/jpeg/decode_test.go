package jpeg_test

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	stdlib "image/jpeg"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/edgewise-ai/edgewise/wasm/kernel/jpeg"
)

func none() {}

// decode decodes a file.
func decode(file []byte, channels int) ([]byte, *jpeg.Picture, error) {
	p, err := jpeg.Open(file)
	if err != nil {
		return nil, nil, err
	}
	dst := make([]byte, p.Width*p.Height*channels)
	return dst, p, p.Decode(dst, channels, none)
}

// colours of the components of a picture.
var samplings = map[string][][2]int{
	"grey": {{1, 1}}, "grey, 2 x 2": {{2, 2}}, "4:4:4": {{1, 1}, {1, 1}, {1, 1}}, "4:2:2": {{2, 1}, {1, 1}, {1, 1}},
	"4:2:0": {{2, 2}, {1, 1}, {1, 1}},
	"4:4:0": {{1, 2}, {1, 1}, {1, 1}}, "4:1:1": {{4, 1}, {1, 1}, {1, 1}}, "4:1:0": {{4, 2}, {1, 1}, {1, 1}},
	"4:2:2, halves": {{2, 2}, {1, 2}, {1, 2}}, "4:4:0, halves": {{2, 2}, {2, 1}, {2, 1}}, "4:4:4, twice": {{2, 1}, {2, 1}, {2, 1}},
}

// TestSamplesAreThoseOfTheLibrary holds every sampling, at odd sizes, with and without restart markers, against
// image/jpeg: samples within 1, colours within what that makes, and nearly all of them equal.
func TestSamplesAreThoseOfTheLibrary(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, sampling := range samplings {
		for _, size := range [][2]int{{1, 1}, {8, 8}, {9, 7}, {31, 33}, {64, 17}, {129, 65}} {
			for _, restart := range []int{0, 1, 3} {
				o := options{
					width: size[0], height: size[1], sampling: sampling, restart: restart,
					coarse: []int{1, 8, 40, 200}[r.IntN(4)], wide: r.IntN(3) == 0, noise: 40 * r.Float64(),
				}
				o.frame = []byte{0, 0xc1}[r.IntN(2)]
				label := fmt.Sprintf("%s, %+v", name, o)
				compare(t, label, write(r, o))
			}
		}
	}
}

// compare holds a file that is sound against image/jpeg.
func compare(t *testing.T, label string, file []byte) {
	t.Helper()
	img, err := stdlib.Decode(bytes.NewReader(file))
	if err != nil {
		t.Fatalf("%s: image/jpeg: %v", label, err)
	}
	different, all := 0, 0
	for _, channels := range []int{1, 3, 4} {
		got, p, err := decode(file, channels)
		if err != nil || p.Width != img.Bounds().Dx() || p.Height != img.Bounds().Dy() {
			t.Fatalf("%s: %+v, %v", label, p, err)
		}
		for i := range p.Width * p.Height {
			want, most := pixel(img, i%p.Width, i/p.Width, channels)
			for c := range channels {
				d := int(got[i*channels+c]) - int(want[c])
				if max(d, -d) > most[c] {
					t.Fatalf("%s, %d channels: sample %d of pixel %d,%d is %d, want %d", label, channels, c, i%p.Width, i/p.Width,
						got[i*channels+c], want[c])
				}
				if all++; d != 0 {
					different++
				}
			}
		}
	}
	if all > 5000 && different > all/10 {
		t.Errorf("%s: %d of %d samples differ", label, different, all)
	}
}

// pixel is a pixel as image/jpeg decodes it, and how far off it may be. A component may be 1 off, which counts 1.402,
// 0.714, 0.344 and 1.772 times in a colour.
func pixel(img image.Image, x, y, channels int) (want [4]byte, most [4]int) {
	switch img := img.(type) {
	case *image.Gray:
		v := img.GrayAt(x, y).Y
		return [4]byte{v, v, v, 255}, [4]int{1, 1, 1, 0}
	case *image.YCbCr:
		c := img.YCbCrAt(x, y)
		if channels == 1 {
			return [4]byte{c.Y}, [4]int{1}
		}
		r, g, b := color.YCbCrToRGB(c.Y, c.Cb, c.Cr)
		return [4]byte{r, g, b, 255}, [4]int{3, 3, 3, 0}
	}
	panic("another kind of picture")
}

// TestFilesOfOthers compares files that other programs wrote.
func TestFilesOfOthers(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jpg")
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	other := map[string]bool{"progressive.jpg": true, "cmyk.jpg": true}
	for _, path := range append(files, "../../../configs/demo/samples/face.jpg") {
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !other[filepath.Base(path)] {
			compare(t, path, file)
		} else if _, err := jpeg.Open(file); !errors.Is(err, jpeg.ErrOther) {
			t.Errorf("%s: %v, want ErrOther", path, err)
		}
	}
}

// same holds that a file is accepted as image/jpeg accepts it, unless it is for that.
func same(t *testing.T, label string, file []byte) (decided bool) {
	t.Helper()
	config, wrong := stdlib.DecodeConfig(bytes.NewReader(file))
	p, err := jpeg.Open(file)
	if err == nil && (wrong != nil || config.Width != p.Width || config.Height != p.Height) {
		t.Fatalf("%s: %d x %d; image/jpeg finds %+v, %v", label, p.Width, p.Height, config, wrong)
	}
	if wrong == nil && config.Width*config.Height > 1<<20 {
		return false
	}
	_, _, err = decode(file, 3)
	if errors.Is(err, jpeg.ErrOther) {
		return false
	}
	if _, wrong := stdlib.Decode(bytes.NewReader(file)); (wrong == nil) != (err == nil) {
		t.Fatalf("%s: %v; image/jpeg: %v", label, err, wrong)
	}
	return true
}

// TestDamagedFilesAreRefusedAsByTheLibrary cuts files at every byte, and changes every byte.
func TestDamagedFilesAreRefusedAsByTheLibrary(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	decided := 0
	for name, o := range map[string]options{
		"colours": {width: 33, height: 17, sampling: samplings["4:2:0"], coarse: 20, noise: 10},
		"grey":    {width: 40, height: 24, sampling: samplings["grey"], coarse: 10, noise: 20, restart: 2},
		"jfif":    {width: 33, height: 17, sampling: samplings["4:4:4"], coarse: 30, noise: 10, restart: 3, segments: "\xff\xe0\x00\x07JFIF\x00"},
	} {
		file := write(r, o)
		for n := range file {
			if same(t, fmt.Sprintf("%s, cut at %d", name, n), file[:n]) {
				decided++
			}
			for _, v := range []byte{0, 0xff, file[n] ^ 1, file[n] ^ 0x80, byte(r.IntN(256))} {
				bad := bytes.Clone(file)
				bad[n] = v
				if same(t, fmt.Sprintf("%s, byte %d is %d", name, n, v), bad) {
					decided++
				}
			}
		}
	}
	if decided < 2000 {
		t.Errorf("only %d damaged files were decided here", decided)
	}
}

// TestOddFilesAreForTheLibrary holds that nothing is guessed.
func TestOddFilesAreForTheLibrary(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	colours := options{width: 16, height: 16, sampling: samplings["4:2:0"], coarse: 20}
	with := func(change func(*options)) []byte {
		o := colours
		change(&o)
		return write(r, o)
	}
	plain := write(r, colours)
	scan := bytes.Index(plain, []byte{0xff, 0xda})
	tables := bytes.Index(plain, []byte{0xff, 0xc4})
	for name, file := range map[string][]byte{
		"nothing":          nil,
		"no end of header": plain[:scan],
		"progressive":      with(func(o *options) { o.frame = 0xc2 }),
		"lossless":         with(func(o *options) { o.frame = 0xc3 }),
		"four components":  with(func(o *options) { o.sampling = [][2]int{{1, 1}, {1, 1}, {1, 1}, {1, 1}} }),
		"two components":   with(func(o *options) { o.sampling = [][2]int{{1, 1}, {1, 1}} }),
		"three samples":    with(func(o *options) { o.sampling = [][2]int{{3, 1}, {1, 1}, {1, 1}} }),
		"unlike colours":   with(func(o *options) { o.sampling = [][2]int{{2, 2}, {1, 1}, {2, 1}} }),
		"12 blocks":        with(func(o *options) { o.sampling = [][2]int{{2, 2}, {2, 2}, {2, 2}} }),
		"the same id":      with(func(o *options) { o.ids = "aab" }),
		"red, green, blue": with(func(o *options) { o.ids = "RGB" }),
		"Adobe's RGB":      with(func(o *options) { o.segments = "\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x00" }),
		"an odd marker":    with(func(o *options) { o.segments = "\xff\xf0\x00\x02" }),
		"12 bits":          bytes.Replace(plain, []byte{0xff, 0xc0, 0, 17, 8}, []byte{0xff, 0xc0, 0, 17, 12}, 1),
		"no height":        bytes.Replace(plain, []byte{8, 0, 16, 0, 16}, []byte{8, 0, 0, 0, 16}, 1),
		"no tables":        append(bytes.Clone(plain[:tables]), plain[scan:]...),
		"two scans":        append(bytes.Clone(plain[:len(plain)-2]), plain[scan:]...),
		"a comment behind": append(bytes.Clone(plain[:len(plain)-2]), "\xff\xfe\x00\x02\xff\xd9"...),
		"too many codes": bytes.Replace(plain, []byte{0xff, 0xc4},
			[]byte("\xff\xc4\x00\x16\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x02\x03\xff\xc4"), 1),
	} {
		_, _, err := decode(file, 3)
		if name == "too many codes" { // a later table takes its place
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !errors.Is(err, jpeg.ErrOther) {
			t.Errorf("%s: %v, want ErrOther", name, err)
		}
	}
}

// TestWorkCanBeEnded counts the looks of a picture, and ends one by a panic.
func TestWorkCanBeEnded(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	p, err := jpeg.Open(write(r, options{width: 8 * 600, height: 16, sampling: samplings["grey"], coarse: 100}))
	if err != nil {
		t.Fatal(err)
	}
	looks := 0
	if err := p.Decode(make([]byte, p.Width*p.Height), 1, func() { looks++ }); err != nil || looks != 6 {
		t.Errorf("%d looks, %v: want 3 for each of 2 rows of 600 blocks", looks, err)
	}
	defer func() {
		if recover() != "enough" {
			t.Error("the panic of a check was lost")
		}
	}()
	_ = p.Decode(make([]byte, p.Width*p.Height), 1, func() { panic("enough") })
}

// FuzzDecode holds that no file makes the decoder panic or write behind dst, and that it accepts what image/jpeg
// accepts.
func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, sampling := range samplings {
		f.Add(write(r, options{width: 9, height: 17, sampling: sampling, coarse: 60, noise: 5, restart: r.IntN(3)}))
	}
	files, _ := filepath.Glob("testdata/*.jpg")
	for _, path := range files {
		if file, err := os.ReadFile(path); err == nil {
			f.Add(file)
		}
	}
	f.Fuzz(func(t *testing.T, file []byte) { same(t, "the file", file) })
}

func BenchmarkPhotograph(b *testing.B) {
	file, err := os.ReadFile("../../../configs/demo/samples/face.jpg")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("own", func(b *testing.B) {
		dst := make([]byte, 3*512*512)
		for b.Loop() {
			p, err := jpeg.Open(file)
			if err == nil {
				err = p.Decode(dst, 3, none)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("image/jpeg", func(b *testing.B) {
		for b.Loop() {
			if _, err := stdlib.Decode(bytes.NewReader(file)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
