package sdk

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/png"
	"math"
	"math/rand/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/samples"
)

// scene draws a picture with edges, gradients and noise.
func scene(width, height int, seed uint64) *image.RGBA {
	r := rand.New(rand.NewPCG(seed, 1))
	picture := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			p := picture.Pix[picture.PixOffset(x, y):]
			p[0] = byte(x * 255 / width)
			p[1] = byte((y*255/height + x/7*40) & 255)
			p[2] = byte(r.IntN(256))
			p[3] = 255
		}
	}
	return picture
}

// pngFile returns a picture as a PNG file. The picture is not empty.
func pngFile(picture image.Image) ([]byte, error) {
	var file bytes.Buffer
	err := png.Encode(&file, picture)
	return file.Bytes(), err
}

// textRegions is the heat map of PP-OCR's text detection for a picture with bars of text: level, slanted, upright, one too
// pale and one too small. It has room for five of them from 640 x 360 pixels on.
func textRegions(random *rand.Rand, width, height int) []float32 {
	heat := make([]float32, width*height)
	bar := func(x, y, w, h, slope, p float64) {
		for j := range int(h) {
			for i := range int(w) {
				px, py := int(x)+i, int(y+slope*float64(i))+j
				if px >= 0 && px < width && py >= 0 && py < height {
					heat[py*width+px] = float32(p) + 0.05*random.Float32()
				}
			}
		}
	}
	bar(40, 50, 400, 20, 0, 0.9)
	bar(50, 140, 420, 16, 0.05, 0.85)
	bar(60, 220, 90, 24, 0, 0.8)
	bar(460, 215, 100, 20, -0.1, 0.8)
	bar(600, 60, 14, 180, 0, 0.9)
	bar(40, 300, 200, 14, 0, 0.45) // too pale
	bar(300, 300, 2, 2, 0, 0.9)    // too small
	return heat
}

// wavFile makes a WAV file of n samples in each channel: of integers of 8 to 32 bits (code 1), or of floats of 32 or 64
// (code 3).
func wavFile(n, rate, channels, bits, code int) []byte {
	var data []byte
	for i := range n {
		for c := range channels {
			data = appendSample(data, math.Sin(float64(i)*0.05+float64(c))*0.8, bits, code)
		}
	}
	var file bytes.Buffer
	file.WriteString("RIFF\x00\x00\x00\x00WAVELIST\x03\x00\x00\x00abc\x00fmt ")
	for _, field := range []any{
		uint32(16), uint16(code), uint16(channels), uint32(rate),
		uint32(rate * channels * bits / 8), uint16(channels * bits / 8), uint16(bits),
	} {
		_ = binary.Write(&file, binary.LittleEndian, field)
	}
	file.WriteString("data")
	_ = binary.Write(&file, binary.LittleEndian, uint32(len(data)))
	file.Write(data)
	return file.Bytes()
}

func appendSample(data []byte, v float64, bits, code int) []byte {
	switch {
	case code == 3 && bits == 64:
		return binary.LittleEndian.AppendUint64(data, math.Float64bits(v))
	case code == 3:
		return binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(v)))
	case bits == 8:
		return append(data, byte(128+v*127))
	case bits == 16:
		return binary.LittleEndian.AppendUint16(data, uint16(int16(v*32767)))
	case bits == 24:
		s := int32(v * 8388607)
		return append(data, byte(s), byte(s>>8), byte(s>>16))
	}
	return binary.LittleEndian.AppendUint32(data, uint32(int32(v*2147483647)))
}

// speechAnswer answers as Silero's voice detection might: it hears speech in some stretches of frames, and counts on in the
// state it is given.
func speechAnswer(request *edgewise.Request) ([]edgewise.Tensor, error) {
	var frame float32
	var state edgewise.Tensor
	for _, in := range request.Inputs {
		if in.Name == "state" {
			state = in
			frame = samples.Values(in)[255]
		}
	}
	next := samples.Values(state)
	next[255]++
	p := float32(0.1)
	if n := int(frame); n >= 4 && n < 16 || n >= 17 && n < 25 || n >= 32 && n < 35 || n >= 40 {
		p = 0.9
	}
	return []edgewise.Tensor{samples.Floats("output", []float32{p}, 1, 1), samples.Floats("stateN", next, 2, 1, 128)}, nil
}

// faceAnchors answers as BlazeFace might: sure of a few anchors beside each other, and of more of them at close range. The
// tensors are scores and places of 512 anchors, then of 384.
func faceAnchors(r *rand.Rand) []edgewise.Tensor {
	var outputs []edgewise.Tensor
	for i, n := range []int{512, 384} {
		scores, boxes := make([]float32, n), make([]float32, n*16)
		for a := range scores {
			scores[a] = -6 + 2*r.Float32()
			if r.IntN(20) == 0 || a/2 == 136 { // and two anchors of the cell in the middle
				scores[a] = 1 + 3*r.Float32()
			}
			for k := range 16 {
				boxes[a*16+k] = (r.Float32() - 0.5) * 12
			}
			boxes[a*16+2], boxes[a*16+3] = 50+20*r.Float32(), 50+20*r.Float32()
		}
		suffix := []string{"", "_1"}[i]
		outputs = append(outputs, samples.Floats("Identity"+suffix+":0", scores, 1, int64(n), 1),
			samples.Floats("Identity_"+[]string{"2", "3"}[i]+":0", boxes, 1, int64(n), 16))
	}
	return outputs
}

// characterColumns answers as PP-OCR's recognition might: in each column of each row a random class, the one before it again,
// none, or a space.
func characterColumns(r *rand.Rand, rows, columns int64, classes int) edgewise.Tensor {
	data := make([]float32, int(rows*columns)*classes)
	for at := 0; at < len(data); at += classes {
		row := data[at:][:classes]
		best := []int{0, 0, r.IntN(classes), classes - 1, 1 + r.IntN(90)}[r.IntN(5)]
		row[classes-1] = r.Float32() * 0.02
		row[best] = 0.6 + 0.4*r.Float32()
	}
	return samples.Floats("softmax_11.tmp_0", data, rows, columns, int64(classes))
}
