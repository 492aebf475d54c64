package sdk

import (
	"image"
	"math"
	"strings"
	"testing"

	"golang.org/x/image/draw"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/samples"
)

// scaled is the native reference of resampling: a tent filter, in float64, rounded to nearest.
func scaled(picture *image.RGBA, width, height int) *image.RGBA {
	from := picture.Rect.Size()
	wide := make([]float64, 4*width*from.Y)
	for x := range width {
		first, weights := tent(from.X, width, x)
		for y := range from.Y {
			for k, w := range weights {
				for c := range 4 {
					wide[4*(y*width+x)+c] += w * float64(picture.Pix[picture.PixOffset(first+k, y)+c])
				}
			}
		}
	}
	to := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		first, weights := tent(from.Y, height, y)
		for i := range 4 * width {
			sum := 0.0
			for k, w := range weights {
				sum += w * wide[4*width*(first+k)+i]
			}
			to.Pix[4*width*y+i] = byte(min(255, math.Floor(sum+0.5)))
		}
	}
	return to
}

// tent returns the weights of new pixel i on an axis that goes from from pixels to to.
func tent(from, to, i int) (first int, weights []float64) {
	scale := float64(from) / float64(to)
	reach, center := max(1, scale), (float64(i)+0.5)*scale-0.5
	first = max(0, int(math.Ceil(center-reach)))
	sum := 0.0
	for k := first; k <= min(from-1, int(math.Floor(center+reach))); k++ {
		w := max(0, 1-math.Abs(center-float64(k))/reach)
		weights, sum = append(weights, w), sum+w
	}
	for k := range weights {
		weights[k] /= sum
	}
	return first, weights
}

// TestTheReferenceIsTheFilterOfTheImageLibrary holds the reference against x/image/draw, which rounds in another way.
func TestTheReferenceIsTheFilterOfTheImageLibrary(t *testing.T) {
	picture := scene(97, 61, 5)
	for _, size := range []image.Point{{32, 32}, {200, 150}, {97, 20}} {
		want, got := image.NewRGBA(image.Rectangle{Max: size}), scaled(picture, size.X, size.Y)
		draw.BiLinear.Scale(want, want.Rect, picture, picture.Rect, draw.Src, nil)
		for i := range want.Pix {
			if d := int(got.Pix[i]) - int(want.Pix[i]); d < -1 || d > 1 {
				t.Fatalf("%v: byte %d is %d, the library has %d", size, i, got.Pix[i], want.Pix[i])
			}
		}
	}
}

// planes is the native reference of normalising: channels first, from pixel x, y on.
func planes(picture *image.RGBA, x0, y0, width, height int, mean, std [3]float32, reverse bool) []float32 {
	values := make([]float32, 3*width*height)
	for c := range 3 {
		from := c
		if reverse {
			from = 2 - c
		}
		for y := range height {
			for x := range width {
				values[(c*height+y)*width+x] = (float32(picture.Pix[picture.PixOffset(x0+x, y0+y)+from]) - mean[c]) / std[c]
			}
		}
	}
	return values
}

var imageNetMean, imageNetStd = [3]float32{123.675, 116.28, 103.53}, [3]float32{58.395, 57.12, 57.375}

func TestClassifierInputIsTheResizedMiddle(t *testing.T) {
	l := gallery(t, "classifier_input", nil)
	for _, size := range []image.Point{{640, 480}, {300, 500}, {256, 256}, {40, 30}} {
		picture := scene(size.X, size.Y, 7)
		got := run(t, l, nil, samples.Elements("image", encoded(t, picture)))["tensor"]
		if !got.Shape.Equal(edgewise.Shape{1, 3, 224, 224}) {
			t.Fatalf("shape %v", got.Shape)
		}
		shorter := min(size.X, size.Y)
		w, h := 256*size.X/shorter, 256*size.Y/shorter
		x, y := int(math.RoundToEven(float64(w-224)/2)), int(math.RoundToEven(float64(h-224)/2))
		want := planes(scaled(picture, w, h), x, y, 224, 224, imageNetMean, imageNetStd, false)
		same(t, size.String(), samples.Values(got), want, 1e-4, 1.1/57)
	}
}

func TestClassifierInputTakesManyPicturesAndObeysItsParameters(t *testing.T) {
	l := gallery(t, "classifier_input", nil)
	a, b := scene(100, 80, 1), scene(64, 64, 2)
	got := run(t, l, parameters{"size", "64", "resize", "0", "mean", "0,0,0", "std", "255,255,255", "layout", "nhwc", "channels", "bgr"},
		samples.Elements("image", encoded(t, a), encoded(t, b)))["tensor"]
	if !got.Shape.Equal(edgewise.Shape{2, 64, 64, 3}) {
		t.Fatalf("shape %v", got.Shape)
	}
	var want []float32
	for _, picture := range []*image.RGBA{scaled(a, 64, 64), b} {
		for i := 0; i < len(picture.Pix); i += 4 {
			want = append(want, float32(picture.Pix[i+2])/255, float32(picture.Pix[i+1])/255, float32(picture.Pix[i])/255)
		}
	}
	same(t, "both", samples.Values(got), want, 1e-5, 1.1/255)
}

func TestPictureStepsSayWhatIsWrong(t *testing.T) {
	l := gallery(t, "classifier_input", nil)
	good := samples.Elements("image", encoded(t, scene(8, 8, 1)))
	tests := []struct {
		name    string
		p       parameters
		message string
		image   edgewise.Tensor
	}{
		{"no picture", nil, "the picture cannot be read", samples.Elements("image", "GIF89a")},
		{"half a picture", nil, "the picture cannot be read", samples.Elements("image", string(encoded(t, scene(64, 64, 1))[:2000]))},
		{"size", parameters{"size", "0"}, `parameter "size" is "0": want a whole number from 1 to 2048`, good},
		{"resize", parameters{"resize", "100"}, `parameter "resize" is 100: want 0, or at least "size", which is 224`, good},
		{"mean", parameters{"mean", "1,2"}, `parameter "mean" is "1,2": want three numbers`, good},
		{"mean of four", parameters{"mean", "1,2,3,4"}, `parameter "mean" is "1,2,3,4": want three numbers`, good},
		{"std", parameters{"std", "1,0,1"}, `parameter "std": want three numbers above 0`, good},
		{"layout", parameters{"layout", "chw"}, `parameter "layout" is "chw": want nchw or nhwc`, good},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { refuses(t, l, tt.p, tt.message, tt.image) })
	}
}

func TestLetterboxFitsThePictureAndTellsWhereItLies(t *testing.T) {
	l := gallery(t, "letterbox", nil)
	for _, size := range []image.Point{{640, 480}, {200, 500}, {33, 1000}, {640, 640}} {
		picture := scene(size.X, size.Y, 3)
		outputs := run(t, l, parameters{"width", "320", "height", "256"}, samples.Elements("image", encoded(t, picture)))
		s := min(320/float64(size.X), 256/float64(size.Y))
		w, h := max(1, int(math.Floor(float64(size.X)*s+0.5))), max(1, int(math.Floor(float64(size.Y)*s+0.5)))
		canvas := image.NewRGBA(image.Rect(0, 0, 320, 256))
		for i := range canvas.Pix {
			canvas.Pix[i] = 114
		}
		at := image.Pt((320-w)/2, (256-h)/2)
		draw.Draw(canvas, image.Rectangle{Min: at, Max: at.Add(image.Pt(w, h))}, scaled(picture, w, h), image.Point{}, draw.Src)
		want := planes(canvas, 0, 0, 320, 256, [3]float32{}, [3]float32{255, 255, 255}, false)
		same(t, size.String(), samples.Values(outputs["tensor"]), want, 1e-5, 1.1/255)
		wantMap := []float32{
			float32(w) / float32(size.X), float32(h) / float32(size.Y), float32(at.X), float32(at.Y),
			float32(size.X), float32(size.Y),
		}
		same(t, "map of "+size.String(), samples.Values(outputs["map"]), wantMap, 1e-6, 1e-6)
	}
}

func TestLabelsAreTheLikeliestClasses(t *testing.T) {
	l := gallery(t, "labels", nil)
	scores := make([]float32, 2*1000)
	for i := range scores {
		scores[i] = float32(math.Sin(float64(i)*1.7)) * 12
	}
	outputs := run(t, l, parameters{"k", int64(3), "labels", strings.Repeat("x\n", 500) + "\nlast"}, samples.Floats("scores", scores, 2, 1000))
	for r := range 2 {
		row := scores[1000*r:][:1000]
		sum := 0.0
		for _, v := range row {
			sum += math.Exp(float64(v))
		}
		seen := map[int32]bool{}
		for i := range 3 {
			best := int32(-1)
			for c, v := range row {
				if !seen[int32(c)] && (best < 0 || v > row[best]) {
					best = int32(c)
				}
			}
			seen[best] = true
			at := 3*r + i
			if got := integers(outputs["class"])[at]; got != best {
				t.Errorf("row %d, place %d: class %d, want %d", r, i, got, best)
			}
			want := math.Exp(float64(row[best])) / sum
			if got := float64(samples.Values(outputs["probability"])[at]); math.Abs(got-want) > 1e-6 {
				t.Errorf("row %d, place %d: probability %v, want %v", r, i, got, want)
			}
			if got := texts(outputs["label"])[at]; (got == "x") != (best < 500) {
				t.Errorf("class %d has label %q", best, got)
			}
		}
	}
	raw := run(t, l, parameters{"softmax", "false", "k", "2"}, samples.Floats("scores", []float32{0.25, 0.75}, 1, 2))
	same(t, "probabilities as they are", samples.Values(raw["probability"]), []float32{0.75, 0.25}, 0, 0)
	nan := run(t, l, nil, samples.Floats("scores", []float32{1, float32(math.NaN())}, 1, 2))
	if v := samples.Values(nan["probability"])[0]; v == v {
		t.Errorf("a row with NaN has probability %v", v)
	}
}
