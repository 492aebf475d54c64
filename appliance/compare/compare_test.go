package compare

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/scalar"
)

var nan, inf = math.NaN(), math.Inf(1)

// floats makes an output of numbers; without a shape it is one row.
func floats(name string, t edgewise.DataType, shape edgewise.Shape, values ...float64) edgewise.Tensor {
	if shape == nil {
		shape = edgewise.Shape{int64(len(values))}
	}
	var data []byte
	for _, v := range values {
		if t.IsFloat() {
			data = scalar.AppendFloat(data, t, v)
		} else {
			data = scalar.AppendBits(data, t, uint64(int64(v)))
		}
	}
	return edgewise.Tensor{Name: name, Type: t, Shape: shape, Data: data}
}

func fp32(values ...float64) edgewise.Tensor { return floats("y", edgewise.FP32, nil, values...) }

func texts(values ...string) edgewise.Tensor {
	var data []byte
	for _, v := range values {
		data = edgewise.AppendElement(data, v)
	}
	return edgewise.Tensor{Name: "y", Type: edgewise.Bytes, Shape: edgewise.Shape{int64(len(values))}, Data: data}
}

func rule(kind string) admin.CompareRule { return admin.CompareRule{Output: "y", Kind: kind} }

func boxesRule(b admin.Boxes) admin.CompareRule {
	return admin.CompareRule{Output: "y", Kind: admin.CompareBoxes, Boxes: &b}
}

func TestOutputsAreComparedByTheirRule(t *testing.T) {
	matrix := edgewise.Shape{2, 3}
	topTwo, share, near := rule(admin.CompareTopK), rule(admin.CompareExact), rule(admin.CompareTopK)
	topTwo.K, share.Share, near.Absolute = 2, 0.5, 0.01
	edits, ratio := rule(admin.CompareText), rule(admin.CompareText)
	edits.Distance, ratio.Relative = 2, 0.5
	one := rule(admin.CompareTolerance)
	one.Absolute = 1
	for name, test := range map[string]struct {
		rule      admin.CompareRule
		want, got edgewise.Tensor
		different int64
		largest   float64
		agrees    bool
	}{
		"equal numbers": {rule(admin.CompareExact), fp32(1, nan, inf), fp32(1, nan, inf), 0, 0, true},
		"other bits":    {rule(admin.CompareExact), fp32(1, 2), fp32(1, 2.5), 1, 0.5, false},
		"zeros of two signs are other bits": {
			rule(admin.CompareExact), fp32(0), fp32(math.Copysign(0, -1)), 1, 0, false,
		},
		"half may differ":                    {share, fp32(1, 2), fp32(1, 9), 1, 7, true},
		"more than half differ":              {share, fp32(1, 2), fp32(2, 9), 2, 7, false},
		"within the tolerance":               {one, fp32(1, 2), fp32(2, 1), 0, 1, true},
		"beyond the tolerance":               {one, fp32(1, 2), fp32(2, 0.5), 1, 1.5, false},
		"default of FP32":                    {rule(admin.CompareTolerance), fp32(1000), fp32(1001), 0, 1, true},
		"beyond that of FP32":                {rule(admin.CompareTolerance), fp32(1000), fp32(1002), 1, 2, false},
		"other types of numbers":             {one, floats("y", edgewise.FP16, nil, 3), floats("y", edgewise.Int32, nil, 4), 0, 1, true},
		"not a number where one is expected": {one, fp32(1), fp32(nan), 1, math.MaxFloat64, false},
		"the other infinity":                 {one, fp32(inf), fp32(-inf), 1, math.MaxFloat64, false},
		"a number for infinity":              {one, fp32(inf), fp32(3), 1, math.MaxFloat64, false},

		"the best of each row": {
			rule(admin.CompareTopK), floats("y", edgewise.FP32, matrix, 1, 5, 2, 9, 0, 1),
			floats("y", edgewise.FP32, matrix, 3, 4, 2, 1, 8, 7), 1, 7, false,
		},
		"two best in another order": {topTwo, fp32(1, 5, 4), fp32(1, 4, 5), 0, 0, true},
		"one of two best is gone":   {topTwo, fp32(1, 5, 4), fp32(5, 6, 4), 1, 1, false},
		"two that are almost equal": {near, fp32(1, 1.001), fp32(1.005, 1.001), 0, 0.004, true},
		"more asked for than there": {topTwo, fp32(3), fp32(9), 0, 0, true},
		"all are equal":             {rule(admin.CompareTopK), fp32(1, 2), fp32(7, 7), 1, 0, false},
		"none is a number":          {rule(admin.CompareTopK), fp32(1, 2), fp32(nan, nan), 1, 0, false},
		"the best shares its place": {rule(admin.CompareTopK), fp32(1, 5, 4), fp32(1, 5, 5), 0, 0, true},
		"many share its place":      {rule(admin.CompareTopK), fp32(1, 5, 4, 0), fp32(5, 5, 5, 0), 1, 0, false},
		"as many as are expected":   {rule(admin.CompareTopK), fp32(5, 5, 5, 0), fp32(5, 5, 5, 0), 0, 0, true},
		"almost none is the best":   {near, fp32(1, 1.001), fp32(1, 1), 1, 0, false},
		"the best is no number":     {rule(admin.CompareTopK), fp32(1, 2), fp32(1, nan), 1, math.MaxFloat64, false},

		"the same direction":  {rule(admin.CompareCosine), fp32(1, 2), fp32(10, 20), 0, 0, true},
		"another direction":   {rule(admin.CompareCosine), fp32(1, 0), fp32(0, 1), 1, 1, false},
		"huge numbers":        {rule(admin.CompareCosine), fp32(3e38, 3e38), fp32(1, 1), 0, 0, true},
		"two rows of zeros":   {rule(admin.CompareCosine), fp32(0, 0), fp32(0, 0), 0, 0, true},
		"one row of zeros":    {rule(admin.CompareCosine), fp32(0, 1), fp32(0, 0), 1, 1, false},
		"a row of no numbers": {rule(admin.CompareCosine), fp32(0, 1), fp32(0, nan), 1, 2, false},

		"equal texts":              {rule(admin.CompareText), texts("a", "ü"), texts("a", "ü"), 0, 0, true},
		"an edit":                  {rule(admin.CompareText), texts("abc"), texts("abxc"), 1, 1, false},
		"two edits are allowed":    {edits, texts("kitten"), texts("sittin"), 0, 2, true},
		"three edits are too many": {edits, texts("kitten"), texts("sitting"), 1, 3, false},
		"half of the characters":   {ratio, texts("äöüß"), texts("aoüß"), 0, 2, true},
		"texts by default":         {admin.CompareRule{}, texts("a"), texts("b"), 1, 1, false},
		"nothing to compare":       {rule(admin.CompareTopK), fp32(), fp32(), 0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			var rules []admin.CompareRule
			if test.rule.Kind != "" {
				rules = append(rules, test.rule)
			}
			if err := Check(rules); err != nil {
				t.Fatal(err)
			}
			all := Answers(rules, []edgewise.Tensor{test.want}, []edgewise.Tensor{test.got})
			got := all.Outputs[0]
			if got.Agrees != test.agrees || got.Different != test.different || math.Abs(got.Largest-test.largest) > 1e-6 ||
				all.Agrees != got.Agrees {
				t.Errorf("got %+v", got)
			}
			if (got.Reason == "") != got.Agrees || int64(len(got.Worst)) != got.Different {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestBoxesAreComparedInAnyOrder(t *testing.T) {
	shape := edgewise.Shape{2, 4}
	two := floats("y", edgewise.FP32, shape, 0, 0, 10, 10, 20, 20, 40, 40)
	turned := floats("y", edgewise.FP32, shape, 20, 20, 40, 40, 0, 0, 10, 10)
	one := floats("y", edgewise.FP32, edgewise.Shape{1, 4}, 0, 0, 10, 10)
	shifted := floats("y", edgewise.FP32, shape, 0, 0, 10, 10, 23, 20, 43, 40)
	none := floats("y", edgewise.FP32, edgewise.Shape{0, 4})
	class := func(values ...float64) edgewise.Tensor { return floats("class", edgewise.Int32, nil, values...) }
	score := func(values ...float64) edgewise.Tensor { return floats("score", edgewise.FP32, nil, values...) }
	parts := boxesRule(admin.Boxes{Classes: "class", Scores: "score", Score: 0.5})
	rows := boxesRule(admin.Boxes{Form: "center", ClassColumn: 5, ScoreColumn: 4})
	row := func(class float64) edgewise.Tensor {
		return floats("y", edgewise.FP32, edgewise.Shape{1, 1, 6}, 5, 5, 10, 10, 0.9, class)
	}
	plain := rule(admin.CompareBoxes)
	list := func(all ...edgewise.Tensor) []edgewise.Tensor { return all }
	for name, test := range map[string]struct {
		rule      admin.CompareRule
		want, got []edgewise.Tensor
		different int64
		agrees    bool
	}{
		"in another order":    {plain, list(two), list(turned), 0, true},
		"one is shifted":      {plain, list(two), list(shifted), 2, false},
		"one is missing":      {plain, list(two), list(one), 1, false},
		"one is too many":     {plain, list(one), list(two), 1, false},
		"none is expected":    {plain, list(none), list(one), 1, false},
		"none on either side": {plain, list(none), list(none), 0, true},
		"of another class": {
			parts, list(two, class(1, 2), score(0.9, 0.8)), list(turned, class(2, 3), score(0.8, 0.9)), 2, false,
		},
		"of the same classes": {
			parts, list(two, class(1, 2), score(0.9, 0.8)), list(turned, class(2, 1), score(0.8, 0.9)), 0, true,
		},
		"an unsure one is missing": {
			parts, list(two, class(1, 2), score(0.9, 0.4)), list(one, class(1), score(0.9)), 0, true,
		},
		"columns":                  {rows, list(row(3)), list(row(3)), 0, true},
		"another class in columns": {rows, list(row(3)), list(row(4)), 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := Check([]admin.CompareRule{test.rule}); err != nil {
				t.Fatal(err)
			}
			all := Answers([]admin.CompareRule{test.rule}, test.want, test.got)
			if got := all.Outputs[0]; got.Different != test.different || got.Agrees != test.agrees {
				t.Errorf("got %+v", got)
			}
			if len(all.Outputs) != 1 {
				t.Errorf("classes and scores are compared apart from their boxes: %+v", all.Outputs)
			}
		})
	}
}

func TestTheBestCounterpartOfABoxIsTaken(t *testing.T) {
	want := floats("y", edgewise.FP32, edgewise.Shape{1, 4}, 0, 0, 100, 100)
	got := floats("y", edgewise.FP32, edgewise.Shape{2, 4}, 5, 0, 105, 100, 1, 0, 101, 100)
	found := Answers([]admin.CompareRule{rule(admin.CompareBoxes)}, []edgewise.Tensor{want}, []edgewise.Tensor{got}).Outputs[0]
	if len(found.Worst) != 1 || found.Worst[0].Index[0] != 0 || found.Worst[0].Want != "" {
		t.Errorf("got %+v, want the first box as one too many", found)
	}
}

func TestAnAnswerThatCannotBeComparedSaysWhy(t *testing.T) {
	bad := fp32(1)
	bad.Data = bad.Data[:3]
	plain := rule(admin.CompareBoxes)
	shaped := func(values []float64, shape ...int64) edgewise.Tensor {
		return floats("y", edgewise.FP32, shape, values...)
	}
	narrow, single := shaped([]float64{1, 2, 3}, 1, 3), floats("y", edgewise.FP32, edgewise.Shape{}, 1)
	none, huge := shaped(nil, 0, 4), shaped(nil, 1<<40, 0, 4)
	boxed := boxesRule(admin.Boxes{Scores: "score"})
	for name, test := range map[string]struct {
		rule      admin.CompareRule
		want, got edgewise.Tensor
		reason    string
	}{
		"shape":               {rule(admin.CompareTolerance), fp32(1), fp32(1, 2), "the shape is [2], want [1]"},
		"type":                {rule(admin.CompareExact), fp32(1), floats("y", edgewise.FP16, nil, 1), "the data type is FP16, want FP32"},
		"missing":             {rule(admin.CompareExact), fp32(1), floats("z", edgewise.FP32, nil, 1), `no output "y"`},
		"not well-formed":     {rule(admin.CompareExact), fp32(1), bad, "the output is not well-formed"},
		"expected is damaged": {rule(admin.CompareExact), bad, fp32(1), "the expected output is not well-formed"},
		"texts as numbers":    {rule(admin.CompareTolerance), texts("a"), texts("a"), "takes numbers"},
		"numbers as texts":    {rule(admin.CompareText), fp32(1), fp32(1), "takes texts"},
		"one number":          {rule(admin.CompareTopK), single, single, "takes rows"},
		"no boxes":            {plain, fp32(1), fp32(1), "holds no boxes"},
		"narrow boxes":        {plain, narrow, narrow, "want at least 4"},
		"no scores":           {boxed, none, none, `no output "score"`},
		"pictures":            {plain, shaped(nil, 1, 0, 4), shaped(nil, 2, 0, 4), "boxes of 2 pictures, want 1"},
		"too many boxes":      {plain, huge, huge, "too many boxes"},
	} {
		t.Run(name, func(t *testing.T) {
			all := Answers([]admin.CompareRule{test.rule}, []edgewise.Tensor{test.want}, []edgewise.Tensor{test.got})
			if got := all.Outputs[0]; all.Agrees || got.Agrees || !strings.Contains(got.Reason, test.reason) {
				t.Errorf("got %+v, want %q", got, test.reason)
			}
		})
	}
}

func TestOutputsThatAreIgnoredOrNotExpectedAreNotCompared(t *testing.T) {
	all := Answers([]admin.CompareRule{rule(admin.CompareIgnore)}, []edgewise.Tensor{fp32(1)},
		[]edgewise.Tensor{fp32(2), floats("z", edgewise.FP32, nil, 1)})
	if !all.Agrees || len(all.Outputs) != 0 {
		t.Errorf("got %+v", all)
	}
}

func TestTheWorstDifferencesAreListedFirst(t *testing.T) {
	want, got := make([]float64, 100), make([]float64, 100)
	for i := range got {
		got[i] = float64((i * 37) % 100)
	}
	found := Answers(nil, []edgewise.Tensor{floats("y", edgewise.FP32, edgewise.Shape{10, 10}, want...)},
		[]edgewise.Tensor{floats("y", edgewise.FP32, edgewise.Shape{10, 10}, got...)}).Outputs[0]
	if found.Different != 99 || len(found.Worst) != maxWorst {
		t.Fatalf("got %+v", found)
	}
	for i, d := range found.Worst {
		if d.By != float64(99-i) || got[10*d.Index[0]+d.Index[1]] != d.By || d.Want != "0" {
			t.Errorf("place %d has %+v", i, d)
		}
	}
}

func TestLongTextsAreShortenedAndTheirWorkIsBounded(t *testing.T) {
	long, other := strings.Repeat("ä", 100_000), strings.Repeat("ö", 100_000)
	found := Answers([]admin.CompareRule{rule(admin.CompareText)}, []edgewise.Tensor{texts(long)},
		[]edgewise.Tensor{texts(other)}).Outputs[0]
	if found.Largest != 100_000 || len(found.Worst[0].Want) > maxTextBytes || !strings.HasSuffix(found.Worst[0].Got, "…") {
		t.Errorf("got %+v", found)
	}
}

func TestRulesAreChecked(t *testing.T) {
	for name, test := range map[string]struct {
		rule  admin.CompareRule
		field string
	}{
		"no output":          {admin.CompareRule{Kind: "exact"}, "output"},
		"no kind":            {admin.CompareRule{Output: "y"}, "kind"},
		"a field of another": {admin.CompareRule{Output: "y", Kind: "exact", K: 1}, "k"},
		"negative":           {admin.CompareRule{Output: "y", Kind: "tolerance", Absolute: -1}, "absolute"},
		"no number":          {admin.CompareRule{Output: "y", Kind: "tolerance", Relative: nan}, "relative"},
		"more than all":      {admin.CompareRule{Output: "y", Kind: "exact", Share: 1.1}, "share"},
		"large k":            {admin.CompareRule{Output: "y", Kind: "top_k", K: 1001}, "k"},
		"boxes of another":   {admin.CompareRule{Output: "y", Kind: "exact", Boxes: &admin.Boxes{}}, "boxes"},
		"form":               {boxesRule(admin.Boxes{Form: "round"}), "boxes.form"},
		"column of the box":  {boxesRule(admin.Boxes{ClassColumn: 3}), "boxes.class_column"},
		"column and output":  {boxesRule(admin.Boxes{ScoreColumn: 4, Scores: "s"}), "boxes.score_column"},
		"least score":        {boxesRule(admin.Boxes{Score: inf}), "boxes.score"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Check([]admin.CompareRule{rule("ignore"), test.rule}[1:])
			if edgewise.KindOf(err) != edgewise.Invalid || !strings.HasSuffix(fieldOf(err), "rules[0]."+test.field) {
				t.Errorf("got %v with field %q", err, fieldOf(err))
			}
		})
	}
	if err := Check([]admin.CompareRule{rule("exact"), rule("text")}); fieldOf(err) != "rules[1].output" {
		t.Errorf("two rules of one output: %v", err)
	}
	if err := Check(make([]admin.CompareRule, MaxRules+1)); edgewise.KindOf(err) != edgewise.TooLarge {
		t.Errorf("too many rules: %v", err)
	}
}

// FuzzAnswers holds that no two tensors make a comparison fail or say what JSON cannot, and that every output agrees
// with itself by each rule that applies to it.
func FuzzAnswers(f *testing.F) {
	f.Add(uint8(edgewise.FP32), []byte{0, 0, 128, 63}, []byte{0, 0, 192, 127}, int64(1), int64(1))
	f.Add(uint8(edgewise.Bytes), []byte("\x01\x00\x00\x00a"), []byte("\x02\x00\x00\x00\xc3\xa4"), int64(1), int64(1))
	f.Add(uint8(edgewise.Int8), []byte("abcdefgh"), []byte("abcdefgi"), int64(2), int64(4))
	f.Fuzz(func(t *testing.T, kind uint8, a, b []byte, rows, columns int64) {
		typ := edgewise.DataTypes()[int(kind)%len(edgewise.DataTypes())]
		tensor := func(data []byte) edgewise.Tensor {
			return edgewise.Tensor{Name: "y", Type: typ, Shape: edgewise.Shape{rows, columns}, Data: data}
		}
		want, got := tensor(a), tensor(b)
		for kind := range uses {
			r := rule(kind)
			both := Answers([]admin.CompareRule{r}, []edgewise.Tensor{want}, []edgewise.Tensor{got})
			if _, err := json.Marshal(both); err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			if kind == admin.CompareIgnore || kind == admin.CompareCosine || kind == admin.CompareBoxes {
				continue // the last two tell what is no number apart from itself
			}
			self := Answers([]admin.CompareRule{r}, []edgewise.Tensor{want}, []edgewise.Tensor{want})
			numbers := kind == admin.CompareTolerance || kind == admin.CompareTopK
			applies := kind == admin.CompareExact || numbers == (typ != edgewise.Bytes)
			if want.Check() == nil && applies && !self.Agrees {
				t.Fatalf("%s: %+v does not agree with itself: %+v", kind, want, self)
			}
		}
	})
}

func fieldOf(err error) string {
	if own, ok := errors.AsType[*edgewise.Error](err); ok {
		return own.Field
	}
	return ""
}
