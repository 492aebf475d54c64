package demo

import (
	"bytes"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"testing"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
)

// sampleFile is the picture that the demo of text recognition begins with. It is drawn by drawSample.
const sampleFile = "../../../configs/demo/samples/text.png"

var update = flag.Bool("update", false, "write "+sampleFile+" again")

func TestSamplePictureIsTheOneThatIsDrawnHere(t *testing.T) {
	drawn := drawSample(t)
	if *update {
		var file bytes.Buffer
		if err := png.Encode(&file, drawn); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(sampleFile, file.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(sampleFile)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if stored.Bounds() != drawn.Bounds() {
		t.Fatalf("the stored picture is %v, drawn is %v: run the test with -update", stored.Bounds(), drawn.Bounds())
	}
	for y := range drawn.Rect.Dy() {
		for x := range drawn.Rect.Dx() {
			if got := color.RGBAModel.Convert(stored.At(x, y)); got != drawn.RGBAAt(x, y) {
				t.Fatalf("pixel %d,%d: stored is %v, drawn is %v: run the test with -update", x, y, got, drawn.RGBAAt(x, y))
			}
		}
	}
}

// drawSample draws four lines of text; the third has a wide gap.
func drawSample(t *testing.T) *image.RGBA {
	picture := image.NewRGBA(image.Rect(0, 0, 640, 360))
	draw.Draw(picture, picture.Rect, image.White, image.Point{}, draw.Src)
	for _, l := range []struct {
		text string
		size float64
		x, y int
	}{
		{"HELLO EDGE 2026", 48, 40, 80},
		{"Read on this box, not in a cloud.", 30, 40, 160},
		{"Total", 34, 40, 232},
		{"42.50", 34, 460, 232},
		{"serial EW-7731", 26, 40, 310},
	} {
		drawText(t, picture, l.text, l.size, image.Pt(l.x, l.y))
	}
	return picture
}

// drawText draws black text whose baseline begins at a place.
func drawText(t *testing.T, picture *image.RGBA, text string, size float64, at image.Point) {
	t.Helper()
	parsed, err := opentype.Parse(goregular.TTF)
	if err != nil {
		t.Fatal(err)
	}
	face, err := opentype.NewFace(parsed, &opentype.FaceOptions{Size: size, DPI: 72})
	if err != nil {
		t.Fatal(err)
	}
	pen := font.Drawer{Dst: picture, Src: image.Black, Face: face, Dot: fixed.P(at.X, at.Y)}
	pen.DrawString(text)
}
