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
