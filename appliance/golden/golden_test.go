package golden

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/example"
	"github.com/edgewise-ai/edgewise/scalar"
	"github.com/edgewise-ai/edgewise/store/documents"
	"github.com/edgewise-ai/edgewise/store/files"
)

// fixture is a model "m" with two versions, and goldens of it in a folder of its own.
type fixture struct {
	*Goldens
	documents *documents.Documents
	folder    string
	record    *edgewise.Record
	answer    func(ctx context.Context, req *edgewise.Request) ([]edgewise.Tensor, error)
}

// Infer answers as the test says; without that the outputs are the inputs under the name y.
func (f *fixture) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	outputs, err := f.answer(ctx, req)
	return &edgewise.Response{Model: req.Model, Outputs: outputs}, err
}

func echo(_ context.Context, req *edgewise.Request) ([]edgewise.Tensor, error) {
	out := req.Inputs[0]
	out.Name = "y"
	return []edgewise.Tensor{out}, nil
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{folder: t.TempDir(), answer: echo, record: &edgewise.Record{Name: "m", Versions: []*edgewise.Version{
		{ID: edgewise.ModelID{Name: "m", Version: 1}, Model: &edgewise.Model{}},
		{ID: edgewise.ModelID{Name: "m", Version: 2}, Model: &edgewise.Model{}},
	}}}
	var err error
	if f.documents, err = documents.Open(f.folder, documents.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.documents.Close() })
	f.open(t)
	return f
}

// open opens the goldens, as after a restart.
func (f *fixture) open(t *testing.T) {
	t.Helper()
	examples, err := files.Open(filepath.Join(f.folder, "goldens"), 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Goldens = New(Config{
		Documents: f.documents, Files: examples, Infer: f, Logger: slog.New(slog.DiscardHandler),
		Record: func(name string) (*edgewise.Record, error) {
			if f.record == nil || name != f.record.Name {
				return nil, edgewise.Errorf("test", edgewise.NotFound, "there is no model %q", name)
			}
			return f.record, nil
		},
		Trial: func(_ context.Context, _ edgewise.ModelID, run func() error) error { return run() },
	})
}

func bytesOf(name string, data ...byte) edgewise.Tensor {
	return edgewise.Tensor{Name: name, Type: edgewise.Uint8, Shape: edgewise.Shape{int64(len(data))}, Data: data}
}

// add stores a golden whose answer is its input.
func (f *fixture) add(t *testing.T, name string, data ...byte) admin.Golden {
	t.Helper()
	one, err := f.Add(nil, name, &example.Example{
		Model:  edgewise.ModelID{Name: "m", Version: 1},
		Inputs: []edgewise.Tensor{bytesOf("x", data...)}, Outputs: []edgewise.Tensor{bytesOf("y", data...)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return one
}

var two = edgewise.ModelID{Name: "m", Version: 2}

func TestGoldensAndReportsAreThereAgainAfterARestart(t *testing.T) {
	f := newFixture(t)
	f.add(t, "first", 1)
	f.add(t, "second", 2)
	if report, err := f.Run(t.Context(), two); err != nil || !report.Passed || len(report.Results) != 2 {
		t.Fatalf("%+v, %v", report, err)
	}
	f.open(t)
	all, err := f.List("m")
	if err != nil || len(all.Goldens) != 2 || all.Goldens[0].Name != "first" || all.Goldens[1].Version != 1 ||
		len(all.Reports) != 1 || all.Reports[0].Version != 2 || !all.Reports[0].Passed {
		t.Fatalf("%+v, %v", all, err)
	}
	data, err := f.Example("m", all.Goldens[1].ID)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := example.Decode(data); err != nil || e.Outputs[0].Data[0] != 2 {
		t.Errorf("%+v, %v", e, err)
	}
	if report, err := f.Report(two); err != nil || !report.Passed {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestRequestsOfGoldensAreBounded(t *testing.T) {
	f := newFixture(t)
	first := f.add(t, "first", 1)
	second := f.add(t, "second", 2)
	rules := []admin.CompareRule{{Output: "y", Kind: admin.CompareIgnore}}
	if err := f.Configure("m", admin.GoldenSettings{Policy: admin.GoldensOff, Rules: rules}); err != nil {
		t.Fatal(err)
	}
	for size, want := range map[int64]int{0: 0, first.Size: 1, first.Size + second.Size: 2} {
		requests, got, err := f.Requests("m", size)
		if err != nil || len(requests) != want || len(got) != 1 || got[0] != rules[0] {
			t.Errorf("%d bytes: %d requests, %v, %v", size, len(requests), got, err)
		}
		for i, r := range requests {
			if r.Inputs[0].Data[0] != byte(i+1) {
				t.Errorf("%d bytes: request %d has %v", size, i, r.Inputs[0].Data)
			}
		}
	}
}

func TestTheReportSaysWhichGoldenFailedAndByHowMuch(t *testing.T) {
	f := newFixture(t)
	f.add(t, "good", 1)
	f.add(t, "other", 2)
	f.add(t, "refused", 3)
	f.answer = func(ctx context.Context, req *edgewise.Request) ([]edgewise.Tensor, error) {
		switch req.Inputs[0].Data[0] {
		case 2:
			return []edgewise.Tensor{bytesOf("y", 7)}, nil
		case 3:
			return nil, errors.New("out of range")
		}
		return echo(ctx, req)
	}
	report, err := f.Run(t.Context(), two)
	if err != nil || report.Passed || report.Failed != 2 {
		t.Fatalf("%+v, %v", report, err)
	}
	if r := report.Results; !r[0].Passed || r[1].Outputs[0].Worst[0].By != 5 || r[2].Error != "out of range" ||
		r[0].Answer != nil || !strings.Contains(string(r[1].Answer), `"data":[7]`) || r[2].Answer != nil {
		t.Errorf("%+v", r)
	}
	err = f.Prove(t.Context(), two)
	own, _ := errors.AsType[*edgewise.Error](err)
	want := `version 2 of model "m" fails 2 of 3 goldens: "other": output "y": 1 of 1 differ, 0 may; "refused": out of range`
	if own == nil || own.Kind != edgewise.Conflict || own.Reason != admin.ReasonGoldens || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestThePolicySaysWhetherAVersionIsRefused(t *testing.T) {
	f := newFixture(t)
	asked := 0
	f.answer = func(context.Context, *edgewise.Request) ([]edgewise.Tensor, error) {
		asked++
		return nil, errors.New("broken")
	}
	if err := f.Prove(t.Context(), two); err != nil || asked != 0 {
		t.Errorf("without goldens: %v, %d requests", err, asked)
	}
	f.add(t, "one", 1)
	for _, test := range []struct {
		policy         string
		refused, asked bool
	}{{admin.GoldensOff, false, false}, {admin.GoldensWarn, false, true}, {admin.GoldensRequire, true, true}} {
		asked = 0
		if err := f.Configure("m", admin.GoldenSettings{Policy: test.policy}); err != nil {
			t.Fatal(err)
		}
		if err := f.Prove(t.Context(), two); (err != nil) != test.refused || (asked > 0) != test.asked {
			t.Errorf("%s: %v, %d requests", test.policy, err, asked)
		}
	}
	for _, bad := range []admin.GoldenSettings{{}, {Policy: "require", Rules: []admin.CompareRule{{Output: "y"}}}} {
		if err := f.Configure("m", bad); edgewise.KindOf(err) != edgewise.Invalid {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestAVersionThatHangsFailsItsGoldensInTime(t *testing.T) {
	f := newFixture(t)
	for i := range 20 {
		f.add(t, fmt.Sprint(i), byte(i))
	}
	synctest.Test(t, func(t *testing.T) {
		f.answer = func(ctx context.Context, _ *edgewise.Request) ([]edgewise.Tensor, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		report, err := f.Run(t.Context(), two)
		if err != nil || report.Failed != 20 || report.Milliseconds != allTime.Milliseconds() {
			t.Fatalf("%+v, %v", report, err)
		}
		first, last := report.Results[0].Error, report.Results[19].Error
		if first != "no answer within 30s" || last != "not run: all goldens together may take 5m0s" {
			t.Errorf("%q, %q", first, last)
		}
	})
}

func TestARunWhoseCallerLeavesSaysNothingOfTheVersion(t *testing.T) {
	f := newFixture(t)
	f.add(t, "one", 1)
	ctx, leave := context.WithCancel(t.Context())
	f.answer = func(context.Context, *edgewise.Request) ([]edgewise.Tensor, error) {
		leave()
		return nil, context.Canceled
	}
	if _, err := f.Run(ctx, two); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := f.Report(two); edgewise.KindOf(err) != edgewise.NotFound {
		t.Errorf("there is a report: %v", err)
	}
}

func TestGoldensOfAModelAreBounded(t *testing.T) {
	f := newFixture(t)
	if err := f.documents.Update(func(tx edgewise.DocumentsTx) error {
		for i := range MaxGoldens - 1 {
			if err := put(tx, Bucket, key("m", fmt.Sprint(i)), admin.Golden{ID: fmt.Sprint(i), Size: 1}); err != nil {
				return err
			}
		}
		return put(tx, Bucket, key("other", "1"), admin.Golden{ID: "1", Size: MaxBytes})
	}); err != nil {
		t.Fatal(err)
	}
	f.add(t, "the last", 1)
	e := &example.Example{
		Model: edgewise.ModelID{Name: "m"}, Inputs: []edgewise.Tensor{bytesOf("x", 1)}, Outputs: []edgewise.Tensor{bytesOf("y", 1)},
	}
	if _, err := f.Add(nil, "", e); edgewise.KindOf(err) != edgewise.TooLarge || !strings.Contains(err.Error(), "200 goldens") {
		t.Errorf("one more: %v", err)
	}
	if err := f.documents.Update(func(tx edgewise.DocumentsTx) error {
		return errors.Join(tx.Delete(Bucket, key("m", "0")), put(tx, Bucket, key("m", "1"), admin.Golden{ID: "1", Size: MaxBytes - 100}))
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Add(nil, "", e); edgewise.KindOf(err) != edgewise.TooLarge || !strings.Contains(err.Error(), "bytes") {
		t.Errorf("too many bytes: %v", err)
	}
	if _, err := f.Add(nil, strings.Repeat("n", maxName+1), e); edgewise.KindOf(err) != edgewise.Invalid {
		t.Errorf("a long name: %v", err)
	}
}

func TestAMaskedRequestIsNoGolden(t *testing.T) {
	f := newFixture(t)
	for _, e := range []*example.Example{{MaskedInputs: []string{"x"}}, {MaskedOutputs: []string{"z"}}} {
		e.Model, e.Outputs = edgewise.ModelID{Name: "m"}, []edgewise.Tensor{bytesOf("y", 1)}
		if _, err := f.Add(nil, "", e); err == nil || !strings.Contains(err.Error(), "masked") {
			t.Errorf("%+v: %v", e, err)
		}
	}
}

// TestARequestToADecoupledModelIsNoGolden refuses one of a version, and one with an answer of its author's for the live one.
func TestARequestToADecoupledModelIsNoGolden(t *testing.T) {
	f := newFixture(t)
	f.record.Versions[1].Model.ModelTransactionPolicy = &edgewise.ModelTransactionPolicy{Decoupled: true}
	f.record.Labels = []edgewise.Label{{Name: edgewise.LiveLabel, Version: 2}}
	f.add(t, "of version 1", 1)
	for _, version := range []int64{0, 2} {
		_, err := f.Add(nil, "", &example.Example{
			Model: edgewise.ModelID{Name: "m", Version: version}, Outputs: []edgewise.Tensor{bytesOf("y", 1)},
		})
		if edgewise.KindOf(err) != edgewise.Unsupported || !strings.Contains(err.Error(), `model "m" is decoupled`) {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

func TestAReportIsBounded(t *testing.T) {
	long := admin.OutputComparison{Output: strings.Repeat("o", 1000), Reason: strings.Repeat("r", 1000)}
	for range 8 {
		long.Worst = append(long.Worst, admin.ElementDifference{Want: strings.Repeat("w", 200), Got: strings.Repeat("g", 200)})
	}
	for outputs, want := range map[int]int{1: 1, 20: 0} {
		report := admin.GoldenReport{}
		for range MaxGoldens {
			r := admin.GoldenResult{Outputs: []admin.OutputComparison{{Output: "agrees", Agrees: true}}}
			for range outputs {
				r.Outputs = append(r.Outputs, long)
			}
			report.Results = append(report.Results, r)
		}
		bound(&report)
		for _, r := range report.Results {
			if len(r.Outputs) != want || want > 0 && r.Outputs[0].Worst != nil {
				t.Fatalf("with %d outputs a result keeps %d", outputs, len(r.Outputs))
			}
		}
	}
}

func TestWhatADeletedModelHadIsGone(t *testing.T) {
	f := newFixture(t)
	one := f.add(t, "one", 1)
	if _, err := f.Run(t.Context(), two); err != nil {
		t.Fatal(err)
	}
	if err := f.Forget(two); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Report(two); edgewise.KindOf(err) != edgewise.NotFound {
		t.Errorf("the report of a deleted version: %v", err)
	}
	if _, err := f.Example("m", one.ID); err != nil {
		t.Errorf("the golden goes with a version: %v", err)
	}
	if err := f.Forget(edgewise.ModelID{Name: "m"}); err != nil {
		t.Fatal(err)
	}
	if all, err := f.List("m"); err != nil || len(all.Goldens) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := f.config.Files.Get(one.Digest, example.MaxBytes); edgewise.KindOf(err) != edgewise.NotFound {
		t.Errorf("its example is still on the disk: %v", err)
	}
	f.record = nil
	if _, err := f.List("m"); edgewise.KindOf(err) != edgewise.NotFound {
		t.Errorf("got %v", err)
	}
}

func TestAVersionThatIsDeletedDuringItsRunLeavesNoReport(t *testing.T) {
	f := newFixture(t)
	f.add(t, "one", 1)
	f.answer = func(ctx context.Context, req *edgewise.Request) ([]edgewise.Tensor, error) {
		f.record = &edgewise.Record{Name: "m", Versions: f.record.Versions[:1]}
		return echo(ctx, req)
	}
	if _, err := f.Run(t.Context(), two); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Report(two); edgewise.KindOf(err) != edgewise.NotFound {
		t.Errorf("got %v", err)
	}
}

func TestAGoldenOfASequenceIsASequenceOfItsOwn(t *testing.T) {
	f := newFixture(t)
	if _, err := f.Add(nil, "", &example.Example{
		Model: edgewise.ModelID{Name: "m"}, Inputs: []edgewise.Tensor{bytesOf("x", 1)}, Outputs: []edgewise.Tensor{bytesOf("y", 1)},
		Sequence: edgewise.Sequence{ID: 7, Start: true},
	}); err != nil {
		t.Fatal(err)
	}
	var seen edgewise.Sequence
	f.answer = func(ctx context.Context, req *edgewise.Request) ([]edgewise.Tensor, error) {
		seen = req.Sequence
		return echo(ctx, req)
	}
	if _, err := f.Run(t.Context(), two); err != nil || seen.ID == 7 || !seen.Start || !seen.End {
		t.Errorf("%+v, %v", seen, err)
	}
}

func TestDocumentsAreChecked(t *testing.T) {
	for name, test := range map[string]struct {
		bucket, key, value string
		good               bool
	}{
		"golden":             {Bucket, "m\x00a", "{}", true},
		"golden of no model": {Bucket, "m", "{}", false},
		"no golden":          {Bucket, "m\x00a", "[]", false},
		"settings":           {SettingsBucket, "m", `{"policy":"off"}`, true},
		"odd settings":       {SettingsBucket, "m", `{"policy":"maybe"}`, false},
		"settings of what":   {SettingsBucket, "m\x00a", `{"policy":"off"}`, false},
		"report":             {ReportsBucket, "m\x001", "{}", true},
		"no report":          {ReportsBucket, "m\x001", "1", false},
		"bad name":           {ReportsBucket, "../m\x001", "{}", false},
	} {
		if err := CheckDocument(test.bucket, test.key, []byte(test.value)); (err == nil) != test.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// floatsOf is a tensor of FP32.
func floatsOf(name string, shape edgewise.Shape, numbers ...float64) edgewise.Tensor {
	t := edgewise.Tensor{Name: name, Type: edgewise.FP32, Shape: shape}
	for _, n := range numbers {
		t.Data = scalar.AppendFloat(t.Data, edgewise.FP32, n)
	}
	return t
}

// seen is what a detector answers to picture n: the scores of four classes, and two boxes of 20 by 20 with their classes.
// fault is what a version does to it.
func seen(n int, fault func(n int, scores, boxes []float64)) []edgewise.Tensor {
	at := float64(n)
	scores := []float64{0.1, 0.1, 0.1, 0.1}
	scores[n%4] = 0.7
	boxes := []float64{at, at, at + 20, at + 20, at + 50, at, at + 70, at + 20}
	fault(n, scores, boxes)
	return []edgewise.Tensor{
		floatsOf("scores", edgewise.Shape{1, 4}, scores...), floatsOf("boxes", edgewise.Shape{2, 4}, boxes...),
		bytesOf("classes", 1, 2),
	}
}

func TestSeededFaultsOfVersionsAreFound(t *testing.T) {
	const all = 100
	f := newFixture(t)
	for n := range all {
		outputs := seen(n, func(int, []float64, []float64) {})
		e := &example.Example{Model: edgewise.ModelID{Name: "m"}, Inputs: []edgewise.Tensor{bytesOf("x", byte(n))}, Outputs: outputs}
		if _, err := f.Add(nil, "", e); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Configure("m", admin.GoldenSettings{Policy: admin.GoldensRequire, Rules: []admin.CompareRule{
		{Output: "scores", Kind: admin.CompareTopK},
		{Output: "boxes", Kind: admin.CompareBoxes, Boxes: &admin.Boxes{Classes: "classes"}},
	}}); err != nil {
		t.Fatal(err)
	}
	shifted := func(by float64) func(int, []float64, []float64) {
		return func(_ int, _, boxes []float64) { boxes[0], boxes[2] = boxes[0]+by, boxes[2]+by }
	}
	for _, test := range []struct {
		name   string
		failed int
		fault  func(n int, scores, boxes []float64)
	}{
		{"none", 0, func(int, []float64, []float64) {}},
		{"other scores of the same labels", 0, func(n int, scores, _ []float64) { scores[n%4] -= 0.2 }},
		{"1 % wrong labels", 1, func(n int, scores, _ []float64) {
			if n == 37 {
				scores[n%4], scores[(n+1)%4] = scores[(n+1)%4], scores[n%4]
			}
		}},
		{"boxes shifted by a pixel", 0, shifted(1)},
		{"boxes shifted by a quarter of their width", all, shifted(5)},
	} {
		f.answer = func(_ context.Context, req *edgewise.Request) ([]edgewise.Tensor, error) {
			return seen(int(req.Inputs[0].Data[0]), test.fault), nil
		}
		report, err := f.Run(t.Context(), two)
		if err != nil || report.Failed != test.failed || report.Passed != (test.failed == 0) {
			t.Errorf("%s: %d of %d fail (%v), want %d", test.name, report.Failed, len(report.Results), err, test.failed)
		}
	}
}
