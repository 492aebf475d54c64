package sdk

import (
	"bytes"
	"image"
	"image/jpeg"
	"math"
	"testing"

	"golang.org/x/image/draw"

	"github.com/edgewise-ai/edgewise"
)

// photo is a JPEG file of 640x480 pixels.
func photo(b *testing.B) []byte {
	b.Helper()
	var file bytes.Buffer
	if err := jpeg.Encode(&file, scene(640, 480, 1), nil); err != nil {
		b.Fatal(err)
	}
	return file.Bytes()
}

func stepBench(b *testing.B, l edgewise.Inferer, p parameters, inputs ...edgewise.Tensor) {
	b.Helper()
	req := &edgewise.Request{Inputs: inputs, Parameters: map[string]any{}}
	for i := 0; i < len(p); i += 2 {
		req.Parameters[p[i].(string)] = p[i+1]
	}
	var guest float64
	for b.Loop() {
		response, err := l.Infer(b.Context(), req)
		if err != nil {
			b.Fatal(err)
		}
		guest += float64(response.Timing.Guest.Time.Nanoseconds())
		response.Release()
	}
	b.ReportMetric(guest/float64(b.N), "guest-ns/op")
}

// BenchmarkClassifierInput compares the step with the same work in Go. Both decode in Go; guest-ns is what follows, in the step alone.
func BenchmarkClassifierInput(b *testing.B) {
	file := photo(b)
	b.Run("step", func(b *testing.B) { stepBench(b, gallery(b, "classifier_input", nil), nil, elements("image", file)) })
	b.Run("native", func(b *testing.B) {
		for b.Loop() {
			decoded, err := jpeg.Decode(bytes.NewReader(file))
			if err != nil {
				b.Fatal(err)
			}
			nativeInput(decoded)
		}
	})
	b.Run("native after decoding", func(b *testing.B) {
		picture := scene(640, 480, 1)
		for b.Loop() {
			nativeInput(picture)
		}
	})
}

func nativeInput(picture image.Image) []float32 {
	small := image.NewRGBA(image.Rect(0, 0, 341, 256))
	draw.BiLinear.Scale(small, small.Rect, picture, picture.Bounds(), draw.Src, nil)
	return planes(small, 58, 16, 224, 224, imageNetMean, imageNetStd, false)
}

// BenchmarkLabels compares softmax and the five likeliest of 1000 classes.
func BenchmarkLabels(b *testing.B) {
	scores := make([]float32, 1000)
	for i := range scores {
		scores[i] = float32(math.Sin(float64(i)) * 10)
	}
	b.Run("step", func(b *testing.B) { stepBench(b, gallery(b, "labels", nil), nil, floats("scores", scores, 1, 1000)) })
	b.Run("native", func(b *testing.B) {
		for b.Loop() {
			nativeLabels(scores)
		}
	})
}

func nativeLabels(scores []float32) (values [5]float32, classes [5]int32) {
	p, highest, sum := make([]float32, len(scores)), float32(math.Inf(-1)), float32(0)
	for _, v := range scores {
		highest = max(highest, v)
	}
	for i, v := range scores {
		p[i] = float32(math.Exp(float64(v - highest)))
		sum += p[i]
	}
	for i, v := range p {
		v /= sum
		for k := range values {
			if v > values[k] {
				copy(values[k+1:], values[k:4])
				copy(classes[k+1:], classes[k:4])
				values[k], classes[k] = v, int32(i)
				break
			}
		}
	}
	return values, classes
}

// BenchmarkYOLO runs a v8 head of 80 classes and 8400 places.
func BenchmarkYOLO(b *testing.B) {
	output, _ := head(false, 8400, 80, [6]float32{1, 1, 0, 0, 640, 640}, 1)
	b.Run("step", func(b *testing.B) { stepBench(b, gallery(b, "yolo", nil), nil, output) })
}
