package samples

import (
	"math/rand/v2"

	"github.com/edgewise-ai/edgewise"
)

// YOLO makes the output of a head with places in clusters, so that boxes overlap: of version 8, [1, 4 + classes,
// places], or of version 5, [1, places, 5 + classes]. rows holds what it says of each place: center, size, the object's
// score in version 5, and the scores of the classes.
func YOLO(v5 bool, places, classes int, seed uint64) (output edgewise.Tensor, rows [][]float32) {
	r := rand.New(rand.NewPCG(seed, 2))
	rows = make([][]float32, places)
	for i := range rows {
		x, y := float32(60+120*(i%5))+r.Float32()*8, float32(60+120*(i/5%5))+r.Float32()*8
		w, h := 60+r.Float32()*20, 60+r.Float32()*20
		rows[i] = []float32{x, y, w, h}
		if v5 {
			rows[i] = append(rows[i], r.Float32())
		}
		for range classes {
			rows[i] = append(rows[i], r.Float32()*r.Float32()*r.Float32())
		}
	}
	return yolo(v5, rows), rows
}

// Detections makes what a v8 head of some places says of a picture with some things in it: 80 classes; one place in
// sixty is sure of something, some beside each other. A picture of 640 x 640 has 8,400 places, one of 416 x 416 has
// 3,549.
func Detections(places int, seed uint64) edgewise.Tensor {
	const classes, each = 80, 60
	_, rows := YOLO(false, places, classes, seed)
	for i, row := range rows {
		if i%each != 0 {
			for k := range classes {
				row[4+k] *= 0.2
			}
		}
	}
	return yolo(false, rows)
}

func yolo(v5 bool, rows [][]float32) edgewise.Tensor {
	places, n := len(rows), len(rows[0])
	data := make([]float32, places*n)
	for i, row := range rows {
		for k, v := range row {
			if v5 {
				data[i*n+k] = v
			} else {
				data[k*places+i] = v
			}
		}
	}
	if v5 {
		return Floats("output", data, 1, int64(places), int64(n))
	}
	return Floats("output", data, 1, int64(n), int64(places))
}

// Faces answers as BlazeFace might: sure of a few anchors beside each other, and of more of them at close range. The
// tensors are scores and places of 512 anchors, then of 384.
func Faces(r *rand.Rand) []edgewise.Tensor {
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
		outputs = append(outputs, Floats("Identity"+suffix+":0", scores, 1, int64(n), 1),
			Floats("Identity_"+[]string{"2", "3"}[i]+":0", boxes, 1, int64(n), 16))
	}
	return outputs
}

// Characters answers as PP-OCR's recognition might: in each column of each row a random class, the one before it again,
// none, or a space.
func Characters(r *rand.Rand, rows, columns int64, classes int) edgewise.Tensor {
	data := make([]float32, int(rows*columns)*classes)
	for at := 0; at < len(data); at += classes {
		row := data[at:][:classes]
		best := []int{0, 0, r.IntN(classes), classes - 1, 1 + r.IntN(90)}[r.IntN(5)]
		row[classes-1] = r.Float32() * 0.02
		row[best] = 0.6 + 0.4*r.Float32()
	}
	return Floats("softmax_11.tmp_0", data, rows, columns, int64(classes))
}
