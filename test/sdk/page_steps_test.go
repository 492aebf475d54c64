package sdk

import (
	"encoding/binary"
	"image"
	"math"
	"slices"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/samples"
)

// These are the steps that the page installs: in AssemblyScript, so that its build needs no compiler of C.

func TestPictureInputFitsPictures(t *testing.T) {
	l := gallery(t, "picture_input", nil)
	picture := image.NewRGBA(image.Rect(0, 0, 96, 64)) // red on the left, green on the right
	for i := range 96 * 64 {
		c := i % 96 / 48
		picture.Pix[4*i+c], picture.Pix[4*i+3] = 200, 255
	}
	file := samples.Elements("image", encoded(t, picture))
	size := func(p parameters) parameters {
		return append(p, "width", "32", "height", "32", "resize", "32", "mean", "0,0,0", "std", "1,1,1")
	}
	for _, tt := range []struct {
		name        string
		p           parameters
		shape       edgewise.Shape
		first, last [3]float32 // pixels at the left end and at the right end of the middle row
		corner      float32
		place       []float32
	}{
		{"crop", size(nil), edgewise.Shape{1, 3, 32, 32}, [3]float32{200}, [3]float32{0, 200}, 200, []float32{0.5, 0.5, -8, 0, 96, 64}},
		{
			"letterbox", size(parameters{"fit", "letterbox"}),
			edgewise.Shape{1, 3, 32, 32},
			[3]float32{200},
			[3]float32{0, 200},
			114,
			[]float32{1 / 3.0, 21 / 64.0, 0, 5, 96, 64},
		},
		{
			"stretch", size(parameters{"fit", "stretch", "channels", "bgr"}),
			edgewise.Shape{1, 3, 32, 32},
			[3]float32{0, 0, 200},
			[3]float32{0, 200},
			0,
			[]float32{1 / 3.0, 0.5, 0, 0, 96, 64},
		},
		{
			"line", append(size(parameters{"fit", "line"}), "width", "0"),
			edgewise.Shape{1, 3, 32, 48},
			[3]float32{200},
			[3]float32{0, 200},
			200,
			[]float32{0.5, 0.5, 0, 0, 96, 64},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			outputs := run(t, l, tt.p, file)
			if got := outputs["tensor"].Shape; !got.Equal(tt.shape) {
				t.Fatalf("shape %v, want %v", got, tt.shape)
			}
			v := samples.Values(outputs["tensor"])
			w, plane := int(tt.shape[3]), int(tt.shape[2]*tt.shape[3])
			for c := range 3 {
				if a, b := v[c*plane+16*w], v[c*plane+17*w-1]; a != tt.first[c] || b != tt.last[c] {
					t.Errorf("channel %d goes from %v to %v, want %v to %v", c, a, b, tt.first[c], tt.last[c])
				}
			}
			if v[0] != tt.corner {
				t.Errorf("the corner is %v, want %v", v[0], tt.corner)
			}
			same(t, "map", samples.Values(outputs["map"]), tt.place, 1e-6, 1e-6)
		})
	}
	bytes := run(t, l, size(parameters{"fit", "stretch", "type", "uint8", "layout", "nhwc"}), file)
	if got := bytes["bytes"]; !got.Shape.Equal(edgewise.Shape{1, 32, 32, 3}) || !slices.Equal(got.Data[:3], []byte{200, 0, 0}) {
		t.Errorf("bytes %v begin with %v", got.Shape, got.Data[:3])
	}
	refuses(t, l, parameters{"fit", "squeeze"}, `parameter "fit" is "squeeze": want one of crop, letterbox, stretch, line`, file)
	refuses(t, l, parameters{"width", "0"}, `parameter "width" is 0: want 1 or more`, file)
	refuses(t, l, parameters{"mean", "1,2"}, `parameter "mean" is "1,2": want three numbers`, file)
	refuses(t, l, nil, "the picture cannot be read", samples.Elements("image", "GIF89a"))
}

func TestClassesAreRankedAndNamed(t *testing.T) {
	l := gallery(t, "classes", nil)
	logits := samples.Floats("scores", []float32{1, 3, 2, 0, 0, 9}, 2, 3)
	outputs := run(t, l, parameters{"k", "2", "labels", "cat\ndog"}, logits)
	if got := texts(outputs["label"]); !slices.Equal(got, []string{"dog", "2", "2", "cat"}) {
		t.Errorf("labels %q", got)
	}
	e := math.Exp
	sum, second := e(1)+e(3)+e(2), e(9)+2
	same(t, "probability", samples.Values(outputs["probability"]),
		[]float32{float32(e(3) / sum), float32(e(2) / sum), float32(e(9) / second), float32(1 / second)}, 1e-6, 1e-6)
	ready := run(t, l, parameters{"k", "1"}, samples.Floats("scores", []float32{0.2, 0.7, 0.1}, 1, 3))
	same(t, "probabilities that are ready", samples.Values(ready["probability"]), []float32{0.7}, 0, 0)
	mean := run(t, l, parameters{"k", "1", "rows", "mean"}, samples.Floats("scores", []float32{0.1, 0.9, 0.5, 0.3}, 2, 2))
	same(t, "the mean of frames", samples.Values(mean["probability"]), []float32{0.6}, 1e-6, 1e-6)
	refuses(t, l, nil, `input "scores" is empty`, samples.Floats("scores", nil, 0, 3))
}

// TestDetectorFindsWhatTheReferenceFinds holds the heads without more against the reference of the step in C.
func TestDetectorFindsWhatTheReferenceFinds(t *testing.T) {
	l := gallery(t, "detector", nil)
	m := [6]float32{0.5, 0.5, -2000, -2000, 1e6, 1e6} // all boxes lie in the picture: overlaps are those of the model's input
	for _, form := range []string{"v8", "v5"} {
		for seed := range uint64(3) {
			output, want := head(form == "v5", 701, 9, m, seed)
			outputs := run(t, l, parameters{"head", form, "max", "1000", "labels", "cat\ndog"}, output, samples.Floats("map", m[:], 1, 6))
			scores, classes, boxes := samples.Values(outputs["score"]), integers(outputs["class"]), samples.Values(outputs["box"])
			if len(scores) != len(want) || len(want) < 20 {
				t.Fatalf("%s: %d boxes, want %d", form, len(scores), len(want))
			}
			for i, d := range want {
				if scores[i] != d.score || classes[i] != d.class {
					t.Fatalf("%s: box %d: score %v, class %d: want %v, %d", form, i, scores[i], classes[i], d.score, d.class)
				}
				same(t, "box", boxes[4*i:][:4], d.box[:], 1e-2, 1e-2)
			}
		}
	}
	refuses(t, l, nil, `v8 with 0 values behind the classes is [1, 4 + classes + more, places]`,
		samples.Floats("output", make([]float32, 40), 1, 4, 10))
	refuses(t, l, parameters{"head", "v3"}, `want one of v8, v5, end2end`, samples.Floats("output", make([]float32, 84), 1, 84, 1))
	refuses(t, l, parameters{"more", "masks"}, `input "proto" is missing`, samples.Floats("output", make([]float32, 84), 1, 84, 1))
	refuses(t, l, parameters{"more", "points", "points", "3x4"}, `parameter "points" is "3x4"`,
		samples.Floats("output", make([]float32, 84), 1, 84, 1))
}

func TestDetectorReadsWhatFollowsTheClasses(t *testing.T) {
	l := gallery(t, "detector", nil)
	place := samples.Floats("map", []float32{0.5, 0.5, 0, 8, 128, 96}, 1, 6) // 128 x 96 in 64 x 64
	t.Run("rows end to end", func(t *testing.T) {
		rows := []float32{8, 16, 24, 32, 0.9, 1, 8, 16, 24, 33, 0.8, 1, 0, 0, 0, 0, 0.1, 0}
		outputs := run(t, l, parameters{"head", "end2end", "labels", "a\nb"}, samples.Floats("output", rows, 1, 3, 6), place)
		same(t, "boxes, of which none is dropped", samples.Values(outputs["box"]), []float32{16, 16, 48, 48, 16, 16, 48, 50}, 1e-4, 1e-4)
		if got := texts(outputs["label"]); !slices.Equal(got, []string{"b", "b"}) {
			t.Errorf("labels %q", got)
		}
	})
	t.Run("points", func(t *testing.T) {
		// v8, 2 places, one class, 2 points of 3 numbers.
		values := []float32{32, 0, 32, 0, 16, 0, 16, 0, 0.9, 0, 30, 0, 20, 0, 0.7, 0, 64, 0, 40, 0, 0.2, 0}
		outputs := run(t, l, parameters{"more", "points", "points", "2x3"}, samples.Floats("output", values, 1, 11, 2), place)
		same(t, "points", samples.Values(outputs["point"]), []float32{60, 24, 0.7, 128, 64, 0.2}, 1e-4, 1e-4)
	})
	t.Run("angle", func(t *testing.T) {
		// Two crossing boxes of one class stay, a third on top of the first goes.
		quarter := float32(math.Pi / 2)
		rows := [][]float32{{32, 32, 40, 4, 0.9, 0}, {32, 32, 40, 4, 0.8, quarter}, {33, 32, 40, 4, 0.7, 0}}
		var values []float32
		for v := range 6 {
			for _, row := range rows {
				values = append(values, row[v])
			}
		}
		outputs := run(t, l, parameters{"more", "angle"}, samples.Floats("output", values, 1, 6, 3), place)
		same(t, "corners", samples.Values(outputs["quad"]), []float32{
			24, 44, 104, 44, 104, 52, 24, 52,
			68, 8, 68, 88, 60, 88, 60, 8,
		}, 1e-3, 1e-3)
	})
	t.Run("masks", func(t *testing.T) {
		// Prototypes of 16 x 16 for an input of 64 x 64: the first is positive on the left, the second everywhere.
		proto := make([]float32, 2*16*16)
		for i := range 16 * 16 {
			proto[i], proto[256+i] = 1, 1
			if i%16 >= 8 {
				proto[i] = -1
			}
		}
		values := []float32{32, 32, 32, 16, 0.9, 1, 0} // v8, one place: a box from 16 to 48, from 24 to 40; the first prototype
		outputs := run(t, l, parameters{"more", "masks"}, samples.Floats("output", values, 1, 7, 1),
			samples.Floats("proto", proto, 1, 2, 16, 16), place)
		mask := outputs["mask"]
		if !mask.Shape.Equal(edgewise.Shape{1, 12, 16}) { // what of 16 x 16 lies in the picture
			t.Fatalf("mask %v", mask.Shape)
		}
		for i, v := range mask.Data {
			x, y := i%16, i/16
			want := x >= 4 && x < 8 && y >= 4 && y < 8
			if (v == 1) != want {
				t.Fatalf("the mask is %d at %d, %d", v, x, y)
			}
		}
	})
}

func TestDetectionsReadBoxesOfDETRAndSSD(t *testing.T) {
	l := gallery(t, "detections", nil)
	place := samples.Floats("map", []float32{0.5, 0.25, 0, 0, 200, 400}, 1, 6) // 200 x 400 in 100 x 100
	box := samples.Floats("box", []float32{0.5, 0.5, 0.2, 0.4, 0.1, 0.1, 0.1, 0.1}, 1, 2, 4)
	size := parameters{"width", "100", "height", "100", "form", "center", "labels", "cat\ndog"}
	detr := run(t, l, size, box, samples.Floats("logits", []float32{0, 5, 0, 0, 0, 9}, 1, 2, 3), place)
	same(t, "a box", samples.Values(detr["box"]), []float32{80, 120, 120, 280}, 1e-3, 1e-3)
	if got := texts(detr["label"]); !slices.Equal(got, []string{"dog"}) {
		t.Errorf("labels %q: the last class is none", got)
	}
	sure := run(t, l, append(size, "activation", "sigmoid"), box, samples.Floats("logits", []float32{-9, -9, 2, 1}, 1, 2, 2), place)
	same(t, "a score", samples.Values(sure["score"]), []float32{float32(1 / (1 + math.Exp(-2)))}, 1e-6, 1e-6)
	numbers := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, 2), 1)
	ssd := run(t, l, parameters{"first", "1", "labels", "cat\ndog", "form", "rows"},
		samples.Floats("box", []float32{10, 20, 30, 40, 50, 10, 60, 20}, 1, 2, 4), samples.Floats("score", []float32{0.6, 0.9}, 1, 2),
		edgewise.Tensor{Name: "number", Type: edgewise.Int64, Shape: edgewise.Shape{1, 2}, Data: numbers}, place)
	same(t, "boxes in pixels, the surest first", samples.Values(ssd["box"]), []float32{20, 200, 40, 240, 40, 40, 80, 120}, 1e-3, 1e-3)
	if got := texts(ssd["label"]); !slices.Equal(got, []string{"cat", "dog"}) {
		t.Errorf("labels %q", got)
	}
	refuses(t, l, nil, `input "score" is missing`, box)
	refuses(t, l, nil, `the inputs have different lengths: 2 boxes, 1 scores`, box, samples.Floats("score", []float32{1}, 1, 1))
}

func TestSegmentsAreMasksOfTheLargestClasses(t *testing.T) {
	l := gallery(t, "segments", nil)
	scores := make([]float32, 3*4*4) // class 2 on the lower half, class 1 at one pixel, class 0 elsewhere
	for i := range 8 {
		scores[2*16+8+i] = 1
	}
	scores[16] = 1
	outputs := run(t, l, parameters{"labels", "sky\nbird\nroad", "background", "0"}, samples.Floats("scores", scores, 1, 3, 4, 4))
	if got := texts(outputs["label"]); !slices.Equal(got, []string{"road", "bird"}) {
		t.Fatalf("labels %q", got)
	}
	want := append(append(make([]byte, 8), 1, 1, 1, 1, 1, 1, 1, 1), append([]byte{1}, make([]byte, 15)...)...)
	if got := outputs["mask"]; !got.Shape.Equal(edgewise.Shape{2, 4, 4}) || !slices.Equal(got.Data, want) {
		t.Errorf("mask %v %v", got.Shape, got.Data)
	}
	same(t, "share", samples.Values(outputs["score"]), []float32{0.5, 1 / 16.0}, 0, 0)
}

func TestSoundInputBringsASoundToTheModelsRateAndLength(t *testing.T) {
	l := gallery(t, "sound_input", nil)
	file := samples.Elements("sound", sawtooth(8000, 800))
	outputs := run(t, l, nil, file)
	if got := outputs["samples"].Shape; !got.Equal(edgewise.Shape{1, 1600}) || !outputs["wave"].Shape.Equal(edgewise.Shape{1600}) {
		t.Errorf("samples %v, wave %v", got, outputs["wave"].Shape)
	}
	cut := run(t, l, parameters{"length", "2000", "rate", "8000"}, file)
	v := samples.Values(cut["samples"])
	if len(v) != 2000 || v[1] == 0 || v[1999] != 0 {
		t.Errorf("%d samples from %v to %v", len(v), v[1], v[len(v)-1])
	}
	refuses(t, l, nil, "the sound is not a WAV file", samples.Elements("sound", "no sound"))
}

// sawtooth is a WAV file of n samples of a sawtooth.
func sawtooth(rate, n int) string {
	body := make([]byte, 0, 2*n)
	for i := range n {
		body = binary.LittleEndian.AppendUint16(body, uint16(i%100*300))
	}
	return string(wave("fmt ", format(1, 1, rate, 16), "data", string(body)))
}
