package e2e

import (
	"encoding/json"
	"image"
	"image/color"
	"image/draw"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goitalic"

	"github.com/edgewise-ai/edgewise/test/real"
)

// TestDemo sends the samples, and files made here, to the real pipelines by the commands of the program.
func TestDemo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := serveReady(t, dir, "--import", real.Models(t), "--import", real.Pipelines(t))
	t.Run("text of the sample", func(t *testing.T) {
		b.wantText(t, sample(t, "text.png"), "HELLO EDGE 2026", "Read on this box, not in a cloud.", "Total", "42.50", "serial EW-7731")
	})
	t.Run("text drawn now", func(t *testing.T) {
		b.wantText(t, drawnText(t), "Pump 9 overheats", "pressure 318 kPa", "CALL 0621-4477")
	})
	t.Run("picture without text", func(t *testing.T) { b.wantText(t, gradient(t)) })
	t.Run("speech of the sample", func(t *testing.T) {
		b.wantSpeech(t, sample(t, "speech.wav"), 0.05, segment{0.93, 2.72}, segment{3.91, 5.28})
	})
	t.Run("speech synthesised now", func(t *testing.T) {
		path, spoken := spokenSentence(t)
		b.wantSpeech(t, path, 0.25, spoken)
	})
	t.Run("silence", func(t *testing.T) { b.wantSpeech(t, writeSound(t, make([]float64, 3*soundRate)), 0) })
	t.Run("noise", func(t *testing.T) { b.wantSpeech(t, writeSound(t, noise(3*soundRate)), 0) })
	t.Run("face of the sample", func(t *testing.T) { b.wantFaces(t, sample(t, "face.jpg"), face{224, 125, 105}) })
	t.Run("face in another place", func(t *testing.T) {
		path, where := movedFace(t)
		b.wantFaces(t, path, where)
	})
	t.Run("picture without a face", func(t *testing.T) { b.wantFaces(t, gradient(t)) })
	t.Run("text has no face", func(t *testing.T) { b.wantFaces(t, sample(t, "text.png")) })
	t.Run("text form names the same answers", func(t *testing.T) {
		contains(t, "ocr", b.must("demo", "ocr", sample(t, "text.png")), "HELLO EDGE 2026", "serial EW-7731")
		contains(t, "face", b.must("demo", "face", sample(t, "face.jpg")), "face  0.", "eyes at 226,102")
	})
	t.Run("drawing", func(t *testing.T) {
		out := t.TempDir() + "/drawn.png"
		b.must("demo", "face", sample(t, "face.jpg"), "--out", out)
		if drawn, plain := readPicture(t, out), readPicture(t, sample(t, "face.jpg")); drawn.Bounds() != plain.Bounds() ||
			slices.Equal(drawn.Pix, plain.Pix) {
			t.Errorf("nothing was drawn")
		}
	})
	t.Run("files that cannot be read", func(t *testing.T) {
		b.refuses(3, []string{"missing.png"}, "demo", "ocr", t.TempDir()+"/missing.png")
		b.refuses(4, []string{"speech.wav"}, "demo", "face", sample(t, "speech.wav"))
		b.refuses(4, []string{"face.jpg"}, "demo", "vad", sample(t, "face.jpg"))
	})
	b.stop()
	wantHealthy(t, dir)
}

// found runs a demo with JSON output and decodes it.
func found[T any](t *testing.T, b *box, demo, path string) T {
	t.Helper()
	var result T
	out := b.must("--output", "json", "demo", demo, path)
	if err := json.Unmarshal([]byte(out), &result); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	return result
}

// wantText compares the lines that are read in a picture, from top to bottom.
func (b *box) wantText(t *testing.T, path string, want ...string) {
	t.Helper()
	read := found[struct {
		Lines []struct {
			Text       string
			Confidence float64
		}
	}](t, b, "ocr", path)
	got := []string{}
	for _, l := range read.Lines {
		got = append(got, l.Text)
		if l.Confidence < 0.8 || l.Confidence > 1 {
			t.Errorf("%q: confidence %v", l.Text, l.Confidence)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
}

// segment is speech from one second to another.
type segment struct{ Start, End float64 }

// wantSpeech compares the segments of speech in a sound, within tolerance seconds at both ends.
func (b *box) wantSpeech(t *testing.T, path string, tolerance float64, want ...segment) {
	t.Helper()
	heard := found[struct{ Segments []segment }](t, b, "vad", path)
	if len(heard.Segments) != len(want) {
		t.Fatalf("segments %v, want %v", heard.Segments, want)
	}
	for i, s := range heard.Segments {
		if math.Abs(s.Start-want[i].Start) > tolerance || math.Abs(s.End-want[i].End) > tolerance {
			t.Errorf("segment %d is %v, want %v within %v s", i, s, want[i], tolerance)
		}
	}
}

// face is where a face is, in pixels of the picture.
type face struct{ x, y, side float64 } // the middle of its box, and its width

// wantFaces compares the faces that are found: their middles within a tenth of their sides, their sides within three,
// their eyes inside the boxes' upper half.
func (b *box) wantFaces(t *testing.T, path string, want ...face) {
	t.Helper()
	type point [2]float64
	seen := found[struct {
		Faces []struct {
			Score     float64
			Low, High point
			LeftEye   point `json:"left_eye"`
			RightEye  point `json:"right_eye"`
		}
	}](t, b, "face", path)
	if len(seen.Faces) != len(want) {
		t.Fatalf("faces %+v, want %+v", seen.Faces, want)
	}
	for i, f := range seen.Faces {
		got := face{(f.Low[0] + f.High[0]) / 2, (f.Low[1] + f.High[1]) / 2, f.High[0] - f.Low[0]}
		near := want[i].side / 10
		if math.Abs(got.x-want[i].x) > near || math.Abs(got.y-want[i].y) > near || math.Abs(got.side-want[i].side) > 3*near {
			t.Errorf("face %d is %+v, want %+v", i, got, want[i])
		}
		if !(f.Low[0] < f.LeftEye[0] && f.LeftEye[0] < f.RightEye[0] && f.RightEye[0] < f.High[0] && f.LeftEye[1] < got.y &&
			f.RightEye[1] < got.y) {
			t.Errorf("face %d: eyes at %v and %v in the box %v, %v", i, f.LeftEye, f.RightEye, f.Low, f.High)
		}
	}
}

// drawnText draws three lines that are in no sample, in other fonts, sizes and colours than the sample's.
func drawnText(t *testing.T) string {
	picture := image.NewRGBA(image.Rect(0, 0, 800, 300))
	draw.Draw(picture, picture.Rect, image.NewUniform(color.RGBA{24, 40, 72, 255}), image.Point{}, draw.Src)
	yellow, white, green := color.RGBA{250, 220, 60, 255}, color.RGBA{240, 240, 240, 255}, color.RGBA{120, 240, 140, 255}
	drawString(t, picture, gobold.TTF, 44, yellow, image.Pt(60, 80), "Pump 9 overheats")
	drawString(t, picture, goitalic.TTF, 34, white, image.Pt(120, 160), "pressure 318 kPa")
	drawString(t, picture, gobold.TTF, 36, green, image.Pt(200, 240), "CALL 0621-4477")
	return writePicture(t, picture)
}

// gradient is a picture that shows nothing.
func gradient(t *testing.T) string {
	picture := image.NewRGBA(image.Rect(0, 0, 400, 300))
	for y := range 300 {
		for x := range 400 {
			picture.SetRGBA(x, y, color.RGBA{uint8(x / 2), uint8(y / 2), 128, 255})
		}
	}
	return writePicture(t, picture)
}

// movedFace puts the sample's face into a wider picture, mirrored and smaller, and tells where it is then.
func movedFace(t *testing.T) (string, face) {
	from := readPicture(t, sample(t, "face.jpg"))
	size := from.Rect.Size()
	picture := image.NewRGBA(image.Rect(0, 0, 900, 500))
	draw.Draw(picture, picture.Rect, image.NewUniform(color.Gray{90}), image.Point{}, draw.Src)
	const left, top = 420, 60
	for y := range size.Y / 2 {
		for x := range size.X / 2 {
			picture.Set(left+size.X/2-1-x, top+y, from.RGBAAt(2*x, 2*y))
		}
	}
	return writePicture(t, picture), face{left + (float64(size.X)-224)/2, top + 125.0/2, 105.0 / 2}
}

// noise is even hiss.
func noise(n int) []float64 {
	random := rand.New(rand.NewPCG(7, 7))
	samples := make([]float64, n)
	for i := range samples {
		samples[i] = 0.1 * (random.Float64() - 0.5)
	}
	return samples
}
