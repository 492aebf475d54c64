package e2e

import (
	"encoding/binary"
	"image"
	"image/color"
	"image/draw"
	_ "image/jpeg" // the sample's format
	"image/png"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/image/font"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
)

// drawString draws one line of text whose baseline begins at a place.
func drawString(t *testing.T, picture *image.RGBA, ttf []byte, size float64, c color.Color, at image.Point, text string) {
	t.Helper()
	parsed, err := opentype.Parse(ttf)
	if err != nil {
		t.Fatal(err)
	}
	face, err := opentype.NewFace(parsed, &opentype.FaceOptions{Size: size, DPI: 72})
	if err != nil {
		t.Fatal(err)
	}
	pen := font.Drawer{Dst: picture, Src: image.NewUniform(c), Face: face, Dot: fixed.P(at.X, at.Y)}
	pen.DrawString(text)
}

func writePicture(t *testing.T, picture image.Image) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "picture.png")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := png.Encode(f, picture); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func readPicture(t *testing.T, path string) *image.RGBA {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	decoded, _, err := image.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	picture := image.NewRGBA(decoded.Bounds())
	draw.Draw(picture, picture.Rect, decoded, decoded.Bounds().Min, draw.Src)
	return picture
}

// Sounds here are 16-bit PCM of one channel, as espeak-ng writes them.
const (
	soundRate   = 22_050 // samples a second
	soundHeader = 44     // bytes before the samples
)

// writeSound writes samples from -1 to 1 as a WAV file.
func writeSound(t *testing.T, samples []float64) string {
	t.Helper()
	le := binary.LittleEndian
	size := uint32(2 * len(samples))
	file := le.AppendUint32([]byte("RIFF"), 36+size)
	file = append(file, "WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00"...)
	file = le.AppendUint32(le.AppendUint32(file, soundRate), 2*soundRate)
	file = le.AppendUint32(append(file, "\x02\x00\x10\x00data"...), size)
	for _, s := range samples {
		file = le.AppendUint16(file, uint16(int16(math.Round(s*math.MaxInt16))))
	}
	return write(t, "sound.wav", file)
}

// speak synthesises a sentence. It needs espeak-ng.
func speak(t *testing.T, sentence string) []float64 {
	t.Helper()
	program, err := exec.LookPath("espeak-ng")
	if err != nil {
		t.Fatal("missing: espeak-ng, which speaks for this test (on Debian: sudo apt-get install espeak-ng; \"make test\" does it)")
	}
	path := filepath.Join(t.TempDir(), "spoken.wav")
	if out, err := exec.Command(program, "-v", "en-us", "-s", "140", "-w", path, sentence).CombinedOutput(); err != nil {
		t.Fatalf("espeak-ng: %v\n%s", err, out)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(file) < soundHeader || binary.LittleEndian.Uint32(file[24:]) != soundRate {
		t.Fatalf("espeak-ng wrote %d bytes, at another rate than %d", len(file), soundRate)
	}
	var samples []float64
	for at := soundHeader; at+1 < len(file); at += 2 {
		samples = append(samples, float64(int16(binary.LittleEndian.Uint16(file[at:])))/math.MaxInt16)
	}
	return samples
}

// spokenSentence writes a sentence between silences and tells where it is: from the first to the last loud sample.
func spokenSentence(t *testing.T) (string, segment) {
	t.Helper()
	const before, after, loud = 1.6, 1.2, 0.03
	spoken := speak(t, "seven yellow lanterns glow over the harbour")
	samples := append(make([]float64, before*soundRate), spoken...)
	samples = append(samples, make([]float64, after*soundRate)...)
	first, last := -1, 0
	for i, s := range samples {
		if math.Abs(s) < loud {
			continue
		}
		if first < 0 {
			first = i
		}
		last = i
	}
	return writeSound(t, samples), segment{float64(first) / soundRate, float64(last) / soundRate}
}
