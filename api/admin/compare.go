package admin

// The kinds of a CompareRule.
const (
	CompareExact     = "exact"     // equal bits
	CompareTolerance = "tolerance" // numbers that differ by no more than Absolute + Relative * |expected|
	CompareTopK      = "top_k"     // the K best elements of each row are the same
	CompareCosine    = "cosine"    // the cosine similarity of each row
	CompareBoxes     = "boxes"     // boxes that overlap and have the same class, in any order
	CompareText      = "text"      // the number of single-character edits between texts
	CompareIgnore    = "ignore"    // not compared
)

// CompareRule says how one output of an answer is compared with the expected one. A field that its kind does not use is
// zero. A row is the elements of the last dimension.
type CompareRule struct {
	Output string `json:"output"`
	Kind   string `json:"kind"`
	// Absolute and Relative are the tolerance; both 0: the default of the data type. For top_k, Absolute is by how much an
	// element may be below the K best ones. For text, Relative is a share of the expected text's characters.
	Absolute float64 `json:"absolute,omitempty"`
	Relative float64 `json:"relative,omitempty"`
	K        int     `json:"k,omitempty"`        // 0: 1
	Minimum  float64 `json:"minimum,omitempty"`  // least cosine, 0: 0.999; least overlap of boxes, 0: 0.8
	Distance int     `json:"distance,omitempty"` // edits of a text that are allowed; with Relative, the greater bound counts
	// Share is how many of what is compared may differ, 0 to 1: elements, rows, boxes, texts.
	Share float64 `json:"share,omitempty"`
	Boxes *Boxes  `json:"boxes,omitempty"` // of the kind boxes; nil: corners without classes and scores
}

// Boxes says what the rows of an output of boxes hold. Their first four numbers are the box.
type Boxes struct {
	Form        string  `json:"form,omitempty"`         // corners (x1 y1 x2 y2, the default) or center (x y width height)
	Classes     string  `json:"classes,omitempty"`      // the output that has the class of each box
	Scores      string  `json:"scores,omitempty"`       // the output that has the score of each box
	ClassColumn int     `json:"class_column,omitempty"` // instead: the column of the same output, 4 or more
	ScoreColumn int     `json:"score_column,omitempty"`
	Score       float64 `json:"score,omitempty"` // boxes below this score need no counterpart
}

// AnswerComparison is how an answer differs from the expected one.
type AnswerComparison struct {
	Agrees  bool               `json:"agrees"`
	Outputs []OutputComparison `json:"outputs"` // of the expected answer that were compared, in its order
}

// OutputComparison is how one output differs from the expected one.
type OutputComparison struct {
	Output    string `json:"output"`
	Kind      string `json:"kind"`
	Agrees    bool   `json:"agrees"`
	Reason    string `json:"reason,omitempty"` // why it does not agree
	Compared  int64  `json:"compared"`         // elements, rows, boxes or texts
	Different int64  `json:"different"`        // of them
	// Largest is the largest difference, also of what is allowed: the distance of numbers, 1 minus the cosine or the
	// overlap, by how much an element is below the best ones, or edits.
	Largest float64 `json:"largest"`
	// Worst are those that differ most, the largest difference first, at most 8.
	Worst []ElementDifference `json:"worst,omitempty"`
}

// ElementDifference is one element, row, box or text that differs.
type ElementDifference struct {
	Index []int64 `json:"index"` // where it is in the expected output, or in the answer where nothing is expected
	Want  string  `json:"want"`  // at most 200 bytes, "" when nothing is expected
	Got   string  `json:"got"`   // the same, of the answer
	By    float64 `json:"by"`    // see Largest
}
