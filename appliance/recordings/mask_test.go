package recordings

import (
	"math"
	"slices"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/scalar"
)

// gradient returns a tensor whose elements count up.
func gradient(t edgewise.DataType, shape ...int64) *edgewise.Tensor {
	made := &edgewise.Tensor{Name: "picture", Type: t, Shape: shape}
	n, _ := made.Shape.Elements()
	for i := range n {
		if t.IsFloat() {
			made.Data = scalar.AppendFloat(made.Data, t, float64(i))
		} else {
			made.Data = scalar.AppendBits(made.Data, t, uint64(i))
		}
	}
	return made
}

// values reads the elements of a tensor.
func values(t *edgewise.Tensor) (list []float64) {
	size := int(t.Type.Size())
	for at := 0; at < len(t.Data); at += size {
		list = append(list, scalar.Float(t.Type, t.Data[at:]))
	}
	return list
}

func TestABlurredPictureHasFewAreasAndTheSameMean(t *testing.T) {
	for name, picture := range map[string]*edgewise.Tensor{
		"planes":          gradient(edgewise.FP32, 1, 3, 32, 48),
		"channels last":   gradient(edgewise.FP32, 1, 32, 48, 3),
		"gray":            gradient(edgewise.FP64, 40, 40),
		"bytes":           gradient(edgewise.Uint8, 8, 16, 3),
		"signed":          gradient(edgewise.Int16, 1, 100, 100),
		"not whole areas": gradient(edgewise.FP32, 3, 33, 65),
	} {
		t.Run(name, func(t *testing.T) {
			original := slices.Clone(picture.Data)
			b, ok := blur(picture)
			if !ok || !b.Shape.Equal(picture.Shape) || b.Type != picture.Type {
				t.Fatalf("%v, %v %v", ok, b.Type, b.Shape)
			}
			if !slices.Equal(original, picture.Data) {
				t.Error("the picture itself is changed")
			}
			if err := b.Check(); err != nil {
				t.Error(err)
			}
			p, _ := pictureOf(picture)
			before, after := values(picture), values(&b)
			distinct := slices.Compact(slices.Sorted(slices.Values(after)))
			if most := areas * areas * p.planes * p.channels; len(distinct) > most {
				t.Errorf("%d different values, want at most %d", len(distinct), most)
			}
			if b, a := mean(before), mean(after); math.Abs(a-b) > 1 {
				t.Errorf("the mean was %v and is %v", b, a)
			}
		})
	}
}

func mean(list []float64) (sum float64) {
	for _, v := range list {
		sum += v / float64(len(list))
	}
	return sum
}

func TestWhatIsNoPictureIsNotBlurred(t *testing.T) {
	for name, picture := range map[string]*edgewise.Tensor{
		"a vector":       gradient(edgewise.FP32, 100),
		"an encoded one": {Type: edgewise.Bytes, Shape: edgewise.Shape{1, 1}, Data: edgewise.AppendElement(nil, "JPEG")},
		"a small one":    gradient(edgewise.FP32, 3, 7, 100),
		"one pixel":      gradient(edgewise.FP32, 1, 1, 3),
		"nothing":        gradient(edgewise.FP32, 0, 10, 10),
		"truth values":   {Type: edgewise.Bool, Shape: edgewise.Shape{2, 2}, Data: make([]byte, 4)},
	} {
		if _, ok := blur(picture); ok {
			t.Errorf("%s is blurred", name)
		}
	}
}
