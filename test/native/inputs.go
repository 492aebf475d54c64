package native

import (
	"image"
	"math"
)

// Inputs makes the inputs of models from picture files, as the steps of the gallery do with their defaults.
type Inputs struct {
	picture Picture
	r       resampler
	tensor  []float32
}

// Classifier is classifier_input: FP32 [1,3,224,224].
func (in *Inputs) Classifier(file []byte) ([]float32, error) {
	if err := in.picture.Decode(file); err != nil {
		return nil, err
	}
	const size, resize = 224, 256
	p := &in.picture
	shorter := min(p.Width, p.Height)
	width, height := resize*p.Width/shorter, resize*p.Height/shorter
	x, y := int(math.RoundToEven(float64(width-size)/2)), int(math.RoundToEven(float64(height-size)/2))
	in.tensor = grown(in.tensor, 3*size*size)
	to := planar(in.tensor, size, size).normalised([3]float32{123.675, 116.28, 103.53}, [3]float32{58.395, 57.12, 57.375})
	in.r.resample(p, p.whole(), width, height, image.Rect(x, y, x+size, y+size), to)
	return in.tensor, nil
}

// Letterbox is letterbox: FP32 [1,3,640,640], and the map.
func (in *Inputs) Letterbox(file []byte) ([]float32, [6]float32, error) {
	if err := in.picture.Decode(file); err != nil {
		return nil, [6]float32{}, err
	}
	const side = 640
	p := &in.picture
	s := min(side/float64(p.Width), side/float64(p.Height))
	w, h := min(side, max(1, int(float64(p.Width)*s+0.5))), min(side, max(1, int(float64(p.Height)*s+0.5)))
	x, y := (side-w)/2, (side-h)/2
	in.tensor = grown(in.tensor, 3*side*side)
	to := planar(in.tensor, side, side).normalised([3]float32{}, [3]float32{255, 255, 255})
	to.fill(side, side, 114)
	in.r.resample(p, p.whole(), w, h, image.Rect(0, 0, w, h), to.at(x, y))
	return in.tensor, [6]float32{float32(w) / float32(p.Width), float32(h) / float32(p.Height), float32(x), float32(y), float32(p.Width), float32(p.Height)}, nil
}

// Face is face_input without views: FP32 [1,256,256,3], and the map.
func (in *Inputs) Face(file []byte) ([]float32, [6]float32, error) {
	if err := in.picture.Decode(file); err != nil {
		return nil, [6]float32{}, err
	}
	const size = 256
	p := &in.picture
	side := float64(max(p.Width, p.Height))
	left, top, scale := (float64(p.Width)-side)/2, (float64(p.Height)-side)/2, size/side
	in.tensor = grown(in.tensor, 3*size*size)
	to := interleaved(in.tensor, size).normalised([3]float32{127.5, 127.5, 127.5}, [3]float32{127.5, 127.5, 127.5})
	to.fill(size, size, 0)
	shown := image.Rect(int(math.Round(-left*scale)), int(math.Round(-top*scale)), int(math.Round((float64(p.Width)-left)*scale)), int(math.Round((float64(p.Height)-top)*scale)))
	in.r.resample(p, p.whole(), shown.Dx(), shown.Dy(), image.Rect(0, 0, shown.Dx(), shown.Dy()), to.at(shown.Min.X, shown.Min.Y))
	return in.tensor, [6]float32{float32(scale), float32(scale), float32(-left * scale), float32(-top * scale), float32(p.Width), float32(p.Height)}, nil
}

// Detection is ocr_input: FP32 [1,3,height,width], both multiples of 32.
func (in *Inputs) Detection(file []byte) (tensor []float32, width, height int, err error) {
	if err := in.picture.Decode(file); err != nil {
		return nil, 0, 0, err
	}
	p := &in.picture
	ratio := min(1, math.Sqrt(960*960/float64(p.Width*p.Height)))
	reduced := func(side int) int { return max(32, 32*int(math.RoundToEven(float64(side)*ratio/32))) }
	width, height = reduced(p.Width), reduced(p.Height)
	in.tensor = grown(in.tensor, 3*width*height)
	to := planar(in.tensor, width, height).normalised([3]float32{0.485 * 255, 0.456 * 255, 0.406 * 255}, [3]float32{0.229 * 255, 0.224 * 255, 0.225 * 255})
	to.reverse = true
	in.r.resample(p, p.whole(), width, height, image.Rect(0, 0, width, height), to)
	return in.tensor, width, height, nil
}
