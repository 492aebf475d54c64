package tensorfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math"
	"testing"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"

	"github.com/edgewise-ai/edgewise"

	"github.com/edgewise-ai/edgewise/wasm/kernel"
)

// chart is a picture of one distinct colour a pixel.
func chart(w, h int) *image.RGBA {
	picture := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			picture.SetRGBA(x, y, color.RGBA{R: byte(10 * x), G: byte(10 * y), B: byte(x + y), A: 255})
		}
	}
	return picture
}

func encode(t testing.TB, format string, picture image.Image) []byte {
	t.Helper()
	var file bytes.Buffer
	var err error
	switch format {
	case "png":
		err = png.Encode(&file, picture)
	case "jpeg":
		err = jpeg.Encode(&file, picture, &jpeg.Options{Quality: 100})
	case "gif":
		err = gif.Encode(&file, picture, nil)
	case "bmp":
		err = bmp.Encode(&file, picture)
	case "tiff":
		err = tiff.Encode(&file, picture, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func TestPicturesOfEveryFormatAreRead(t *testing.T) {
	want := chart(6, 4)
	for _, format := range []string{"png", "bmp", "tiff"} {
		t.Run(format, func(t *testing.T) {
			got, err := ReadPicture(write(t, "picture.anything", encode(t, format, want)))
			if err != nil {
				t.Fatal(err)
			}
			if got.Rect != want.Rect || !bytes.Equal(got.Pix, want.Pix) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
	white := image.NewRGBA(image.Rect(0, 0, 5, 3))
	for i := range white.Pix {
		white.Pix[i] = 255
	}
	for _, format := range []string{"jpeg", "gif"} {
		t.Run(format, func(t *testing.T) {
			got, err := DecodePicture(encode(t, format, white))
			if err != nil {
				t.Fatal(err)
			}
			if got.Rect != white.Rect || !bytes.Equal(got.Pix, white.Pix) {
				t.Errorf("got %v, want a white picture of 5x3", got)
			}
		})
	}
	// One red pixel, lossless: the smallest WebP file there is.
	webp := []byte("RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00\x2f\x00\x00\x00\x10\x07\x10\x11\x11\x88\x88\xfe\x07\x00")
	t.Run("webp", func(t *testing.T) {
		got, err := DecodePicture(webp)
		if err != nil {
			t.Fatal(err)
		}
		if got.Rect.Dx() != 1 || got.Rect.Dy() != 1 {
			t.Errorf("got %v, want one pixel", got.Rect)
		}
	})
}

func TestTransparentPixelsLieOnWhite(t *testing.T) {
	glass := image.NewNRGBA(image.Rect(0, 0, 2, 1))
	glass.SetNRGBA(1, 0, color.NRGBA{A: 255})
	got, err := DecodePicture(encode(t, "png", glass))
	if err != nil {
		t.Fatal(err)
	}
	if got.RGBAAt(0, 0) != (color.RGBA{255, 255, 255, 255}) || got.RGBAAt(1, 0) != (color.RGBA{A: 255}) {
		t.Errorf("got %v and %v, want white and black", got.RGBAAt(0, 0), got.RGBAAt(1, 0))
	}
}

// withOrientation puts an EXIF block that states an orientation into a JPEG file.
func withOrientation(file []byte, orientation uint16, order binary.AppendByteOrder, mark string) []byte {
	block := append([]byte("Exif\x00\x00"), mark...)
	block = order.AppendUint16(block, 42)
	block = order.AppendUint32(block, 8)
	block = order.AppendUint16(block, 2)                                   // two fields
	block = append(order.AppendUint16(block, 0x010f), make([]byte, 10)...) // Make
	block = order.AppendUint16(order.AppendUint16(block, 0x0112), 3)       // a short,
	block = order.AppendUint16(order.AppendUint32(block, 1), orientation)  // one of them
	block = append(block, make([]byte, 6)...)                              // padding, no next directory
	head := binary.BigEndian.AppendUint16([]byte{0xff, 0xd8, 0xff, 0xff, 0xe1}, uint16(len(block)+2))
	return append(append(head, block...), file[2:]...)
}

func TestEveryOrientationIsTurnedUpright(t *testing.T) {
	// The upright picture has a black corner at the top left and a grey one at the top right. Stored says where these
	// two corners lie in the file, as CIPA DC-008 defines each orientation: 0th row and 0th column.
	const w, h = 32, 16
	type corner struct{ right, low bool }
	stored := map[uint16][2]corner{
		1: {{false, false}, {true, false}},
		2: {{true, false}, {false, false}},
		3: {{true, true}, {false, true}},
		4: {{false, true}, {true, true}},
		5: {{false, false}, {false, true}},
		6: {{false, true}, {false, false}},
		7: {{true, true}, {true, false}},
		8: {{true, false}, {true, true}},
	}
	for orientation, corners := range stored {
		for mark, order := range map[string]binary.AppendByteOrder{"II": binary.LittleEndian, "MM": binary.BigEndian} {
			t.Run(fmt.Sprint(orientation, mark), func(t *testing.T) {
				size := image.Pt(w, h)
				if orientation >= 5 {
					size = image.Pt(h, w)
				}
				file := image.NewGray(image.Rectangle{Max: size})
				for i := range file.Pix {
					file.Pix[i] = 255
				}
				for i, c := range corners {
					at := image.Point{}
					if c.right {
						at.X = size.X - 8
					}
					if c.low {
						at.Y = size.Y - 8
					}
					for y := range 8 {
						for x := range 8 {
							file.SetGray(at.X+x, at.Y+y, color.Gray{Y: byte(128 * i)})
						}
					}
				}
				got, err := DecodePicture(withOrientation(encode(t, "jpeg", file), orientation, order, mark))
				if err != nil {
					t.Fatal(err)
				}
				if got.Rect.Size() != image.Pt(w, h) {
					t.Fatalf("the picture is %v, want %dx%d", got.Rect.Size(), w, h)
				}
				for at, want := range map[image.Point]int{{X: 3, Y: 3}: 0, {X: w - 4, Y: 3}: 128, {X: 3, Y: h - 4}: 255, {X: w - 4, Y: h - 4}: 255} {
					if value := int(got.RGBAAt(at.X, at.Y).R); value < want-3 || value > want+3 {
						t.Errorf("%v is %d, want %d", at, value, want)
					}
				}
			})
		}
	}
}

func TestABrokenOrientationMeansUpright(t *testing.T) {
	file := encode(t, "jpeg", chart(16, 8))
	for _, data := range [][]byte{
		withOrientation(file, 0, binary.LittleEndian, "II"),
		withOrientation(file, 9, binary.LittleEndian, "II"),
		withOrientation(file, 6, binary.LittleEndian, "MM"), // read in the other order: far beyond the block
		file,
	} {
		if got := kernel.Orientation(data); got != 1 {
			t.Errorf("orientation %d, want 1", got)
		}
	}
	for n := range len(file) {
		kernel.Orientation(withOrientation(file, 6, binary.BigEndian, "MM")[:n])
	}
}

func TestPicturesOverTheBoundAreRefusedUndecoded(t *testing.T) {
	// A PNG of 10001x10000 pixels that ends after its header.
	file := encode(t, "png", chart(1, 1))[:33]
	binary.BigEndian.PutUint32(file[16:], 10001)
	binary.BigEndian.PutUint32(file[20:], 10000)
	binary.BigEndian.PutUint32(file[29:], pngChecksum(file[12:29]))
	path := write(t, "large.png", file)
	_, err := ReadPicture(path)
	wantError(t, err, edgewise.TooLarge, path, "10001x10000", "100000000")
}

// pngChecksum is the CRC-32 of ISO 3309.
func pngChecksum(data []byte) uint32 {
	crc := ^uint32(0)
	for _, b := range data {
		crc ^= uint32(b)
		for range 8 {
			crc = crc>>1 ^ 0xedb88320&-(crc&1)
		}
	}
	return ^crc
}

func TestBrokenPicturesNameTheirFormat(t *testing.T) {
	for _, format := range []string{"png", "jpeg", "gif", "bmp", "tiff"} {
		path := write(t, "picture", encode(t, format, chart(8, 8))[:20])
		_, err := ReadPicture(path)
		wantError(t, err, edgewise.Invalid, path, "broken")
	}
}

func TestPictureBecomesATensor(t *testing.T) {
	picture := image.NewRGBA(image.Rect(0, 0, 2, 1))
	picture.Pix = []byte{255, 0, 51, 255, 0, 255, 102, 255}
	file := encode(t, "png", picture)
	for _, test := range []struct {
		name   string
		spec   edgewise.Spec
		opts   Options
		shape  edgewise.Shape
		values []float64
	}{
		{
			"rows of pixels",
			edgewise.Spec{Type: edgewise.Uint8, Shape: edgewise.Shape{-1, 2, 3}},
			Options{},
			edgewise.Shape{1, 2, 3},
			[]float64{255, 0, 51, 0, 255, 102},
		},
		{
			"planes",
			edgewise.Spec{Type: edgewise.FP32, Shape: edgewise.Shape{-1, 3, -1, -1}},
			Options{},
			edgewise.Shape{1, 3, 1, 2},
			[]float64{255, 0, 0, 255, 51, 102},
		},
		{
			"unit",
			edgewise.Spec{Type: edgewise.FP64, Shape: edgewise.Shape{3, -1, -1}},
			Options{Scale: Unit},
			edgewise.Shape{3, 1, 2},
			[]float64{1, 0, 0, 1, 0.2, 0.4},
		},
		{
			"signed",
			edgewise.Spec{Type: edgewise.FP64, Shape: edgewise.Shape{3, -1, -1}},
			Options{Scale: Signed},
			edgewise.Shape{3, 1, 2},
			[]float64{1, -1, -1, 1, -0.6, -0.2},
		},
		{
			"format given",
			edgewise.Spec{Type: edgewise.Uint8, Shape: edgewise.Shape{-1, -1, -1}},
			Options{Format: edgewise.FormatNHWC},
			edgewise.Shape{1, 2, 3},
			[]float64{255, 0, 51, 0, 255, 102},
		},
		{
			"grey",
			edgewise.Spec{Type: edgewise.Uint8, Shape: edgewise.Shape{1, -1, -1}},
			Options{Format: edgewise.FormatNCHW},
			edgewise.Shape{1, 1, 2},
			[]float64{82, 161},
		},
		{
			"grey without channels",
			edgewise.Spec{Type: edgewise.Uint8, Shape: edgewise.Shape{-1, -1}},
			Options{},
			edgewise.Shape{1, 2},
			[]float64{82, 161},
		},
		{
			"resized",
			edgewise.Spec{Type: edgewise.Uint8, Shape: edgewise.Shape{1, 1, 1, 3}},
			Options{Format: edgewise.FormatNHWC},
			edgewise.Shape{1, 1, 1, 3},
			[]float64{128, 128, 77},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Read(write(t, "x.png", file), test.spec, test.opts)
			if err != nil {
				t.Fatal(err)
			}
			if !got.Shape.Equal(test.shape) {
				t.Fatalf("shape %v, want %v", got.Shape, test.shape)
			}
			for i, want := range test.values {
				if value := element(got, i); math.Abs(value-want) > 1e-6 && (test.name != "resized" || math.Abs(value-want) > 1) {
					t.Errorf("element %d is %v, want %v", i, value, want)
				}
			}
		})
	}
}

func element(t edgewise.Tensor, i int) float64 {
	switch t.Type {
	case edgewise.FP32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:])))
	case edgewise.FP64:
		return math.Float64frombits(binary.LittleEndian.Uint64(t.Data[8*i:]))
	}
	return float64(t.Data[i])
}

func TestPictureThatTheTensorCannotHoldIsRefused(t *testing.T) {
	file := encode(t, "png", chart(4, 4))
	for _, test := range []struct {
		name, message string
		spec          edgewise.Spec
		opts          Options
		kind          edgewise.Kind
	}{
		{"type", "a picture becomes UINT8", edgewise.Spec{Type: edgewise.Int64, Shape: edgewise.Shape{3, -1, -1}}, Options{}, edgewise.Invalid},
		{
			"scaled integers", "cannot be scaled",
			edgewise.Spec{Type: edgewise.Uint8, Shape: edgewise.Shape{3, -1, -1}},
			Options{Scale: Unit},
			edgewise.Invalid,
		},
		{"rank", "2 or 3 dimensions", edgewise.Spec{Type: edgewise.Uint8, Shape: edgewise.Shape{3}}, Options{}, edgewise.Invalid},
		{"batch", "2 or 3 dimensions", edgewise.Spec{Type: edgewise.Uint8, Shape: edgewise.Shape{2, 3, -1, -1}}, Options{}, edgewise.Invalid},
		{"layout", "give the format", edgewise.Spec{Type: edgewise.Uint8, Shape: edgewise.Shape{-1, -1, -1}}, Options{}, edgewise.Invalid},
		{
			"channels", "1 or 3 channels, not 5",
			edgewise.Spec{Type: edgewise.Uint8, Shape: edgewise.Shape{5, -1, -1}},
			Options{Format: edgewise.FormatNCHW},
			edgewise.Invalid,
		},
		{
			"size", "1 to 100000000 pixels",
			edgewise.Spec{Type: edgewise.Uint8, Shape: edgewise.Shape{3, 10001, 10000}},
			Options{},
			edgewise.TooLarge,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := write(t, "x.png", file)
			_, err := Read(path, test.spec, test.opts)
			wantError(t, err, test.kind, path, test.message)
		})
	}
}

func TestParseScaleKnowsEveryScale(t *testing.T) {
	for name, want := range map[string]Scale{"raw": Raw, "unit": Unit, "signed": Signed} {
		if got, err := ParseScale(name); err != nil || got != want {
			t.Errorf("%q is %v, %v", name, got, err)
		}
	}
	_, err := ParseScale("half")
	wantError(t, err, edgewise.Invalid, `"half"`, "raw")
}

func FuzzDecodePicture(f *testing.F) {
	for _, format := range []string{"png", "jpeg", "gif", "bmp", "tiff"} {
		f.Add(encode(f, format, chart(3, 2)))
	}
	f.Add(withOrientation(encode(f, "jpeg", chart(3, 2)), 6, binary.BigEndian, "MM"))
	f.Fuzz(func(t *testing.T, file []byte) {
		picture, err := DecodePicture(file)
		if err == nil && (picture.Rect.Min != image.Point{} || len(picture.Pix) != 4*picture.Rect.Dx()*picture.Rect.Dy()) {
			t.Fatalf("a picture of %v with %d bytes", picture.Rect, len(picture.Pix))
		}
	})
}
