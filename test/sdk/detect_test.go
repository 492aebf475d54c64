package sdk

import (
	"fmt"
	"image"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/image/draw"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/samples"
)

// detection is a box of the native reference.
type detection struct {
	box   [4]float32
	score float32
	class int32
}

func iou(a, b [4]float32) float32 {
	w, h := min(a[2], b[2])-max(a[0], b[0]), min(a[3], b[3])-max(a[1], b[1])
	if w <= 0 || h <= 0 {
		return 0
	}
	return w * h / ((a[2]-a[0])*(a[3]-a[1]) + (b[2]-b[0])*(b[3]-b[1]) - w*h)
}

// suppress is the native reference of non-maximum suppression.
func suppress(all []detection, limit float32) []detection {
	slices.SortStableFunc(all, func(a, b detection) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return 0
	})
	var kept []detection
	for _, d := range all {
		if !slices.ContainsFunc(kept, func(k detection) bool { return k.class == d.class && iou(k.box, d.box) > limit }) {
			kept = append(kept, d)
		}
	}
	return kept
}

// head makes the output of a head, and what the reference finds in it.
func head(v5 bool, places, classes int, m [6]float32, seed uint64) (edgewise.Tensor, []detection) {
	output, rows := samples.YOLO(v5, places, classes, seed)
	var all []detection
	clamp := func(v, most float32) float32 { return max(0, min(most, v)) }
	for _, row := range rows {
		objectness, scores := float32(1), row[4:]
		if v5 {
			objectness, scores = row[4], row[5:]
		}
		best, class := float32(-1), int32(0)
		for c, s := range scores {
			if s*objectness > best {
				best, class = s*objectness, int32(c)
			}
		}
		if x, y, w, h := row[0], row[1], row[2], row[3]; best >= 0.25 {
			all = append(all, detection{[4]float32{
				clamp((x-w/2-m[2])/m[0], m[4]), clamp((y-h/2-m[3])/m[1], m[5]), clamp((x+w/2-m[2])/m[0], m[4]), clamp((y+h/2-m[3])/m[1], m[5]),
			}, best, class})
		}
	}
	return output, suppress(all, 0.45)
}

func TestYOLOFindsWhatTheReferenceFinds(t *testing.T) {
	l := gallery(t, "yolo", nil)
	m := [6]float32{0.5, 0.5, 0, 80, 1280, 960}
	for _, v5 := range []bool{false, true} {
		for seed := range uint64(5) {
			name := fmt.Sprintf("v8, %d", seed)
			p := parameters{"labels", "cat\ndog"}
			if v5 {
				name, p = fmt.Sprintf("v5, %d", seed), append(p, "head", "v5")
			}
			t.Run(name, func(t *testing.T) {
				output, want := head(v5, 701, 9, m, seed)
				outputs := run(t, l, p, output, samples.Floats("map", m[:], 1, 6))
				boxes, scores, classes, labels := samples.Values(outputs["box"]), samples.Values(outputs["score"]),
					integers(outputs["class"]), texts(outputs["label"])
				if len(scores) != len(want) || len(want) < 20 {
					t.Fatalf("%d boxes, want %d", len(scores), len(want))
				}
				for i, d := range want {
					if scores[i] != d.score || classes[i] != d.class {
						t.Fatalf("box %d: score %v, class %d: want %v, %d", i, scores[i], classes[i], d.score, d.class)
					}
					same(t, "box", boxes[4*i:][:4], d.box[:], 1e-3, 1e-3)
					if label := map[int32]string{0: "cat", 1: "dog"}[d.class]; label != "" && labels[i] != label {
						t.Errorf("class %d is called %q", d.class, labels[i])
					}
				}
			})
		}
	}
	if n := len(samples.Values(run(t, l, nil, samples.Floats("output", make([]float32, 84*10), 1, 84, 10))["score"])); n != 0 {
		t.Errorf("%d boxes in nothing", n)
	}
	refuses(t, l, nil, `a v8 head has [1, 4 + classes, places]`, samples.Floats("output", make([]float32, 40), 1, 4, 10))
	refuses(t, l, parameters{"head", "v5"}, `a v5 head has [1, places, 5 + classes]`, samples.Floats("output", make([]float32, 40), 1, 8, 5))
	refuses(t, l, parameters{"head", "v3"}, `parameter "head" is "v3": want v8 or v5`, samples.Floats("output", make([]float32, 84), 1, 84, 1))
	refuses(t, l, nil, `scale that is not above 0`, samples.Floats("output", make([]float32, 84), 1, 84, 1),
		samples.Floats("map", make([]float32, 6), 1, 6))
}

// TestFaceStepsDoWhatTheNativeCodeDoes runs the steps on the pictures and the model's answers that native code was
// given: both looks, the whole picture and each face at close range.
func TestFaceStepsDoWhatTheNativeCodeDoes(t *testing.T) {
	input, anchors := gallery(t, "face_input", nil), gallery(t, "anchors", nil)
	for seed, size := range [][2]int{{320, 240}, {200, 333}, {640, 640}} {
		picture, random := scene(size[0], size[1], uint64(seed)), rand.New(rand.NewPCG(uint64(seed), 3))
		want := native[struct {
			Looks  int       // at the whole picture, and at each face at close range
			Scores []float64 // of the faces
		}](t, fmt.Sprintf("faces_%d.json", seed))
		file := samples.Elements("image", encoded(t, picture))
		first := run(t, input, nil, file)
		sameInput(t, "the whole picture", samples.Values(first["tensor"]), wholeView(picture))
		found := decodeFaces(t, anchors, "0.5", faceAnchors(random), first["map"])
		if n := len(samples.Values(found["score"])); n != want.Looks-1 || n < 3 {
			t.Fatalf("%d faces at first look, native code looks at %d", n, want.Looks-1)
		}
		views := closeViews(samples.Values(found["box"]))
		second := run(t, input, nil, file, samples.Floats("view", views, int64(len(views)/3), 3))
		tensor, maps := samples.Values(second["tensor"]), samples.Values(second["map"])
		var sure []detection
		for i := range want.Looks - 1 {
			view := nativeView(picture, [3]float32(views[3*i:]))
			sameInput(t, fmt.Sprintf("face %d at close range", i), tensor[i*len(view):][:len(view)], view)
			again := decodeFaces(t, anchors, "0.65", faceAnchors(random), samples.Floats("map", maps[6*i:][:6], 1, 6))
			firstBox := [4]float32(samples.Values(found["box"])[4*i:])
			for k, s := range samples.Values(again["score"]) {
				if b := [4]float32(samples.Values(again["box"])[4*k:]); iou(firstBox, b) > 0.3 {
					sure = append(sure, detection{box: b, score: s})
					break
				}
			}
		}
		// Every face of native code is one of those, or the mean of several; the surest one is looked for.
		for _, score := range want.Scores {
			near := slices.ContainsFunc(sure, func(d detection) bool { return math.Abs(float64(d.score)-score) < 1e-5 })
			if !near {
				t.Errorf("seed %d: a face with score %v is not found", seed, score)
			}
		}
		if (len(want.Scores) == 0) != (len(sure) == 0) {
			t.Errorf("seed %d: %d faces, native code has %d", seed, len(sure), len(want.Scores))
		}
	}
}

func wholeView(picture *image.RGBA) []float32 {
	size := picture.Rect.Size()
	side := max(size.X, size.Y)
	return nativeView(picture, [3]float32{float32(size.X-side) / 2, float32(size.Y-side) / 2, float32(side)})
}

// nativeView makes the input of the face model of a square part of a picture, by another library: red, green, blue from
// -1 to 1, black beyond the picture. view is the top left corner and the length of a side.
func nativeView(picture *image.RGBA, view [3]float32) (values []float32) {
	const pixels = 256
	x, y, side := float64(view[0]), float64(view[1]), float64(view[2])
	part := image.Rect(int(math.Floor(x)), int(math.Floor(y)), int(math.Ceil(x+side)), int(math.Ceil(y+side)))
	part = part.Intersect(picture.Rect)
	to := func(p image.Point) image.Point {
		scale := pixels / side
		return image.Pt(int(math.Round((float64(p.X)-x)*scale)), int(math.Round((float64(p.Y)-y)*scale)))
	}
	square := image.NewRGBA(image.Rect(0, 0, pixels, pixels))
	draw.BiLinear.Scale(square, image.Rectangle{Min: to(part.Min), Max: to(part.Max)}, picture, part, draw.Src, nil)
	for at := 0; at < len(square.Pix); at += 4 {
		for _, sample := range square.Pix[at : at+3] {
			values = append(values, float32(sample)/127.5-1)
		}
	}
	return values
}

// sameInput allows for the library's other rounding: one step of 255.
func sameInput(t *testing.T, what string, got, want []float32) {
	t.Helper()
	same(t, what, got, want, 1.01/127.5, 1.01/127.5)
}

func decodeFaces(t *testing.T, l edgewise.Inferer, score string, reply []edgewise.Tensor, m edgewise.Tensor) map[string]edgewise.Tensor {
	t.Helper()
	return run(t, l, parameters{"score", score}, renamed(reply[0], "score"), renamed(reply[1], "value"),
		renamed(reply[2], "score_2"), renamed(reply[3], "value_2"), renamed(m, "map"))
}

func closeViews(boxes []float32) []float32 {
	var views []float32
	for i := 0; i < len(boxes); i += 4 {
		w, h := boxes[i+2]-boxes[i], boxes[i+3]-boxes[i+1]
		side := max(1, 2.5*max(w, h))
		views = append(views, (boxes[i]+boxes[i+2]-side)/2, (boxes[i+1]+boxes[i+3]-side)/2, side)
	}
	return views
}

func TestAnchorsKeepTheSurestAndTellTheRow(t *testing.T) {
	l := gallery(t, "anchors", nil)
	// One grid of 2x2 cells, one anchor each; two rows: in the first anchors 0 and 1 overlap, in the second only 3 is
	// sure.
	scores := []float32{2, 1, -9, -9, -9, -9, -9, 3}
	boxes := make([]float32, 2*4*4)
	for a := range 8 {
		boxes[4*a+2], boxes[4*a+3] = 150, 60
	}
	p := parameters{"grids", "2x1", "size", int64(200), "iou", "0.15"}
	in := []edgewise.Tensor{samples.Floats("score", scores, 2, 4, 1), samples.Floats("value", boxes, 2, 4, 4)}
	surest := run(t, l, append(p, "merge", "surest"), in...)
	same(t, "surest", samples.Values(surest["box"]), []float32{-25, 20, 125, 80, 75, 120, 225, 180}, 1e-4, 1e-4)
	if rows := integers(surest["row"]); !slices.Equal(rows, []int32{0, 1}) {
		t.Errorf("rows %v", rows)
	}
	a, b := 1/(1+math.Exp(-2)), 1/(1+math.Exp(-1))
	x := float32((a*50 + b*150) / (a + b))
	mean := run(t, l, p, in...)
	same(t, "mean", samples.Values(mean["box"]), []float32{x - 75, 20, x + 75, 80, 75, 120, 225, 180}, 1e-3, 1e-3)
	same(t, "score", samples.Values(mean["score"]), []float32{float32(a), float32(1 / (1 + math.Exp(-3)))}, 1e-6, 1e-6)
	if !mean["point"].Shape.Equal(edgewise.Shape{2, 0, 2}) {
		t.Errorf("points %v", mean["point"].Shape)
	}
	refuses(t, l, nil, `the inputs have 4 anchors: parameter "grids" has 896`, in...)
	refuses(t, l, parameters{"grids", "2x"}, `parameter "grids" is "2x": want 16x2,8x6`, in...)
	refuses(t, l, parameters{"grids", "9000x9000"}, `parameter "grids"`, in...)
}
