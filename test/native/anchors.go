package native

import (
	"cmp"
	"math"
	"slices"
)

// Face is what anchors finds: the score, and center, size and six points in the picture's pixels.
type Face struct {
	Score  float32
	Values [16]float32
}

// Faces decodes what BlazeFace answers for one picture, as anchors does with its defaults: scores and values of 512 anchors, then
// of 384, and the map of face_input. The surest face comes first.
func Faces(scores, values [2][]float32, m [6]float32) []Face {
	var found []Face
	for part, grid := range [2][2]int{{16, 2}, {8, 6}} {
		cells, each := grid[0], grid[1]
		for i, raw := range scores[part] {
			if raw < 0 {
				continue // below a score of 0.5
			}
			f := Face{Score: float32(1 / (1 + math.Exp(-float64(raw))))}
			copy(f.Values[:], values[part][16*i:])
			for k := range f.Values {
				f.Values[k] /= 256
			}
			x, y := (float32(i/each%cells)+0.5)/float32(cells), (float32(i/each/cells)+0.5)/float32(cells)
			for k := 0; k < len(f.Values); k += 2 {
				if k != 2 {
					f.Values[k] += x
					f.Values[k+1] += y
				}
			}
			found = append(found, f)
		}
	}
	merged := merge(found)
	for i := range merged {
		merged[i].place(m)
	}
	return merged
}

// place brings fractions of the model's input to pixels of the picture.
func (f *Face) place(m [6]float32) {
	for k := 0; k < len(f.Values); k += 2 {
		x, y := f.Values[k]*256, f.Values[k+1]*256
		if k == 2 {
			f.Values[k], f.Values[k+1] = x/m[0], y/m[1]
		} else {
			f.Values[k], f.Values[k+1] = (x-m[2])/m[0], (y-m[3])/m[1]
		}
	}
}

// merge makes one face of those that overlap the surest by more than 0.3: their mean, weighted by score.
func merge(found []Face) []Face {
	slices.SortStableFunc(found, func(a, b Face) int { return cmp.Compare(b.Score, a.Score) })
	var merged []Face
	for len(found) > 0 {
		best := found[0]
		var sum [16]float64
		weight, rest := 0.0, 0
		for i, f := range found {
			if i > 0 && overlap(&best, &f) <= 0.3 {
				found[rest] = f
				rest++
				continue
			}
			weight += float64(f.Score)
			for k, v := range f.Values {
				sum[k] += float64(v) * float64(f.Score)
			}
		}
		for k := range sum {
			best.Values[k] = float32(sum[k] / weight)
		}
		merged, found = append(merged, best), found[:rest]
	}
	return merged
}

// overlap is the intersection of both boxes over their union.
func overlap(a, b *Face) float32 {
	side := func(c1, s1, c2, s2 float32) float32 { return min(c1+s1/2, c2+s2/2) - max(c1-s1/2, c2-s2/2) }
	w, h := side(a.Values[0], a.Values[2], b.Values[0], b.Values[2]), side(a.Values[1], a.Values[3], b.Values[1], b.Values[3])
	if w <= 0 || h <= 0 {
		return 0
	}
	return w * h / (a.Values[2]*a.Values[3] + b.Values[2]*b.Values[3] - w*h)
}
