package demo

// What BlazeFace answers: a score and 16 numbers for each anchor, a place on one of two grids over its input.
const (
	fineCells, fineAnchors     = 16, 2 // cells a side, and anchors in each
	coarseCells, coarseAnchors = 8, 6
	fineCount                  = fineCells * fineCells * fineAnchors
	coarseCount                = coarseCells * coarseCells * coarseAnchors
	faceValues                 = 16 // numbers of each anchor: center, size, six points
)

// anchors returns the places that the model's answers are relative to, as fractions of its input, in the model's
// order: the fine grid, then the coarse one, each row after row. All anchors of a cell lie at its center.
//
// Source: MediaPipe, SsdAnchorsCalculator with fixed_anchor_size, as configured for face detection.
func anchors() []Point {
	all := make([]Point, 0, fineCount+coarseCount)
	for _, grid := range [][2]int{{fineCells, fineAnchors}, {coarseCells, coarseAnchors}} {
		cells, each := grid[0], grid[1]
		for y := range cells {
			for x := range cells {
				for range each {
					all = append(all, Point{(float64(x) + 0.5) / float64(cells), (float64(y) + 0.5) / float64(cells)})
				}
			}
		}
	}
	return all
}
