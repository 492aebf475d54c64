package kernel_test

import (
	"testing"

	"github.com/edgewise-ai/edgewise/wasm/kernel"
)

func BenchmarkFrame(b *testing.B) {
	from, to := kernel.Size{Width: 640, Height: 480, Channels: 3}, kernel.Size{Width: 416, Height: 416, Channels: 3}
	src, dst, tensor := make([]byte, from.Bytes()), make([]byte, to.Bytes()), make([]byte, 4*to.Bytes())
	for i := range src {
		src[i] = byte(i * 7)
	}
	mean, scale := make([]float32, 3), []float32{1, 1, 1}
	b.Run("letterbox", func(b *testing.B) {
		for b.Loop() {
			if _, err := kernel.Letterbox(dst, to, src, from, kernel.Bilinear, 114, none); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("normalise", func(b *testing.B) {
		for b.Loop() {
			if err := kernel.Normalise(tensor, dst, to, mean, scale, kernel.Layout{}, none); err != nil {
				b.Fatal(err)
			}
		}
	})
}
