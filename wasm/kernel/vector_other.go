//go:build !amd64

package kernel

func weighVector([]float32, []byte, []pair) int { return 0 }

func blendVector([]byte, []float32, []float32, float32, float32) int { return 0 }

func splitVector([3]Floats, []byte, [3]float32, [3]float32) int { return 0 }
