package recorded

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/example"
	"github.com/edgewise-ai/edgewise/scalar"
)

// inferer answers requests by a function.
type inferer func(req *edgewise.Request) (*edgewise.Response, error)

func (i inferer) Infer(_ context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	return i(req)
}

// echo answers with its input, as an output y.
func echo(req *edgewise.Request) (*edgewise.Response, error) {
	y := req.Inputs[0]
	y.Name = "y"
	return &edgewise.Response{Model: req.Model, Outputs: []edgewise.Tensor{y}}, nil
}

func floats(name string, list ...float64) edgewise.Tensor {
	t := edgewise.Tensor{Name: name, Type: edgewise.FP32, Shape: edgewise.Shape{int64(len(list))}}
	for _, v := range list {
		t.Data = scalar.AppendFloat(t.Data, t.Type, v)
	}
	return t
}

var replayedAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// recordedEcho is a request with a number, recorded after a time.
func recordedEcho(value float64, after time.Duration) *example.Example {
	return &example.Example{
		Model: edgewise.ModelID{Name: "cat", Version: 1}, Inputs: []edgewise.Tensor{floats("x", value)},
		Outputs: []edgewise.Tensor{floats("y", value)}, Arrived: replayedAt.Add(after), Took: 2 * time.Millisecond,
	}
}

// archiveOf is an archive of recorded requests.
func archiveOf(t *testing.T, list ...*example.Example) *bytes.Buffer {
	t.Helper()
	var body bytes.Buffer
	w := tar.NewWriter(&body)
	for _, e := range list {
		data, err := example.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.WriteHeader(&tar.Header{Name: "one.example", Mode: 0o600, Size: int64(len(data))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &body
}

func TestReplayComparesEachAnswerWithTheRecordedOne(t *testing.T) {
	failed := recordedEcho(4, 0)
	failed.Outputs, failed.Error = nil, "out of order"
	archive := archiveOf(t, recordedEcho(1, 0), recordedEcho(2, 0), recordedEcho(3, 0), failed)
	box := inferer(func(req *edgewise.Request) (*edgewise.Response, error) {
		if req.Model != (edgewise.ModelID{Name: "dog", Version: 8}) {
			t.Errorf("asked is %v", req.Model)
		}
		switch scalar.Float(edgewise.FP32, req.Inputs[0].Data) {
		case 2:
			return &edgewise.Response{Outputs: []edgewise.Tensor{floats("y", 7)}}, nil
		case 3, 4:
			return nil, errors.New("still out of order")
		}
		return echo(req)
	})
	o := Options{Target: edgewise.ModelID{Name: "dog", Version: 8}, Concurrency: 3}
	r, err := Replay(t.Context(), box, archive, o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != 4 || r.Agreed != 2 || r.Different != 1 || r.Failed != 1 || len(r.Worst) != 2 ||
		r.Worst[0].Request != 2 || len(r.Worst[0].Outputs) != 1 || r.Worst[1].Error != "still out of order" || r.Recorded.P99 != 2 {
		t.Errorf("%+v", r)
	}
	var text strings.Builder
	r.WriteText(&text)
	if !strings.Contains(text.String(), `model "dog" version 8: 2 of 4 answers agree, 1 differ, 1 requests failed`) {
		t.Error(text.String())
	}
}

func TestExactReplayAllowsNoTolerance(t *testing.T) {
	box := inferer(func(*edgewise.Request) (*edgewise.Response, error) {
		return &edgewise.Response{Outputs: []edgewise.Tensor{floats("y", 1.0000001)}}, nil
	})
	for exact, agreed := range map[bool]int{false: 1, true: 0} {
		o := Options{Target: edgewise.ModelID{Name: "cat"}, Concurrency: 1, Exact: exact}
		if r, err := Replay(t.Context(), box, archiveOf(t, recordedEcho(1, 0)), o); err != nil || r.Agreed != agreed {
			t.Errorf("exact %v: %+v, %v", exact, r, err)
		}
	}
}

func TestReplayKeepsTheRecordedSpeed(t *testing.T) {
	archive := archiveOf(t, recordedEcho(1, 0), recordedEcho(2, time.Hour), recordedEcho(3, 3*time.Hour))
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var sent []time.Duration
		box := inferer(func(req *edgewise.Request) (*edgewise.Response, error) {
			sent = append(sent, time.Since(began))
			return echo(req)
		})
		o := Options{Target: edgewise.ModelID{Name: "cat"}, Concurrency: 1, Speed: 2}
		if _, err := Replay(t.Context(), box, archive, o); err != nil {
			t.Fatal(err)
		}
		if want := []time.Duration{0, 30 * time.Minute, 90 * time.Minute}; !slices.Equal(sent, want) {
			t.Errorf("sent at %v, want %v", sent, want)
		}
	})
}

func TestReplayKeepsTheOrderOfSequences(t *testing.T) {
	var list []*example.Example
	for i := range 20 {
		e := recordedEcho(float64(i), 0)
		e.Sequence = edgewise.Sequence{ID: 7, Start: i == 0}
		list = append(list, e)
	}
	var mu sync.Mutex
	var got []float64
	box := inferer(func(req *edgewise.Request) (*edgewise.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, scalar.Float(edgewise.FP32, req.Inputs[0].Data))
		return echo(req)
	})
	o := Options{Target: edgewise.ModelID{Name: "cat"}, Concurrency: 8}
	if r, err := Replay(t.Context(), box, archiveOf(t, list...), o); err != nil || r.Agreed != 20 || !slices.IsSorted(got) {
		t.Errorf("%+v, %v, sent in the order %v", r, err, got)
	}
}

func TestReplayLeavesOutWhatIsMasked(t *testing.T) {
	input, output := recordedEcho(1, 0), recordedEcho(2, 0)
	input.Inputs, input.MaskedInputs = nil, []string{"x"}
	output.Outputs[0], output.MaskedOutputs = floats("y", 0), []string{"y"}
	o := Options{Target: edgewise.ModelID{Name: "cat"}, Concurrency: 1}
	r, err := Replay(t.Context(), inferer(echo), archiveOf(t, input, output, recordedEcho(3, 0)), o)
	if err != nil || r.Requests != 2 || r.Agreed != 2 || r.Masked != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, archive := range []*bytes.Buffer{archiveOf(t), archiveOf(t, input)} {
		if r, err := Replay(t.Context(), inferer(echo), archive, o); err == nil || edgewise.KindOf(err) != edgewise.NotFound {
			t.Errorf("nothing to replay: %+v, %v", r, err)
		}
	}
}

func TestReplayOfACutArchiveFails(t *testing.T) {
	whole := archiveOf(t, recordedEcho(1, 0), recordedEcho(2, 0)).Bytes()
	for _, size := range []int{0, 600, len(whole) - 1024} {
		o := Options{Target: edgewise.ModelID{Name: "cat"}, Concurrency: 1}
		if r, err := Replay(t.Context(), inferer(echo), bytes.NewReader(whole[:size]), o); err == nil {
			t.Errorf("%d bytes of %d: %+v", size, len(whole), r)
		}
	}
}

// recordedPhoto is a request with a picture of two colours and one without, answered with two boxes.
func recordedPhoto(t *testing.T) *example.Example {
	t.Helper()
	var encoded bytes.Buffer
	if err := png.Encode(&encoded, image.NewGray(image.Rect(0, 0, 3, 2))); err != nil {
		t.Fatal(err)
	}
	e := recordedEcho(0, 0)
	e.Inputs = []edgewise.Tensor{
		{Name: "file", Type: edgewise.Bytes, Shape: edgewise.Shape{1}, Data: edgewise.AppendElement(nil, encoded.String())},
		{Name: "pixels", Type: edgewise.Uint8, Shape: edgewise.Shape{1, 2, 3, 3}, Data: bytes.Repeat([]byte{9, 200, 7}, 6)},
		floats("a/b", 1, 2),
	}
	boxes := floats("boxes", 1, 2, 11, 22, 5, 5, 6, 6)
	boxes.Shape = edgewise.Shape{2, 4}
	e.Outputs = []edgewise.Tensor{boxes, floats("labels", 3, 3), floats("scores", 0.5, 0.25)}
	return e
}

func TestExportWritesPicturesWithATableAndBoxes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	n, err := Export(archiveOf(t, recordedPhoto(t), recordedEcho(5, time.Second)), dir, Folder, Detector{"boxes", "labels", "scores"})
	if err != nil || n != 2 {
		t.Fatal(n, err)
	}
	read := func(name string) string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	picture, err := png.Decode(strings.NewReader(read("000001-pixels.png")))
	if err != nil {
		t.Fatal(err)
	}
	if r, g, b, _ := picture.At(2, 1).RGBA(); r>>8 != 9 || g>>8 != 200 || b>>8 != 7 || picture.Bounds().Dx() != 3 {
		t.Errorf("pixel %d %d %d of %v", r>>8, g>>8, b>>8, picture.Bounds())
	}
	read("000001-file.png")
	read("000001-a_b.npy")
	want := "request,version,arrived,took_ms,error,files,out.boxes,out.labels,out.scores,out.y\n" +
		"1,1,2026-03-01T12:00:00Z,2.000,,000001-file.png 000001-pixels.png 000001-a_b.npy,1 2 11 22 5 5 6 6,3 3,0.5 0.25,\n" +
		"2,1,2026-03-01T12:00:01Z,2.000,,000002-x.npy,,,,5\n"
	if got := read("answers.csv"); got != want {
		t.Errorf("the table is\n%s\nwant\n%s", got, want)
	}
	var c coco
	if err := json.Unmarshal([]byte(read("annotations.json")), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Images) != 2 || len(c.Annotations) != 2 || c.Annotations[0].Box != [4]float64{1, 2, 10, 20} ||
		c.Annotations[0].Area != 200 || *c.Annotations[1].Score != 0.25 || len(c.Categories) != 1 || c.Categories[0].ID != 3 {
		t.Errorf("%+v", c)
	}
}

func TestExportWritesNumPyArchives(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	if n, err := Export(archiveOf(t, recordedPhoto(t)), dir, NPZ, Detector{}); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	r, err := zip.OpenReader(filepath.Join(dir, "000001.npz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	var names []string
	for _, f := range r.File {
		names = append(names, f.Name)
	}
	want := []string{"in.file.npy", "in.pixels.npy", "in.a_b.npy", "out.boxes.npy", "out.labels.npy", "out.scores.npy"}
	if !slices.Equal(names, want) {
		t.Errorf("the archive has %v, want %v", names, want)
	}
	if _, err := Export(archiveOf(t), dir, NPZ, Detector{}); err == nil {
		t.Error("a folder that is there already is written to")
	}
}
