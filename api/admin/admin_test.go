package admin

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
)

func TestModelCarriesTheStateOfItsOwnVersionsOnly(t *testing.T) {
	record := &edgewise.Record{
		Name:   "cat",
		Wanted: true,
		Versions: []*edgewise.Version{
			{
				ID: edgewise.ModelID{Name: "cat", Version: 1}, Digest: "d1", Size: 3, Created: time.Unix(0, 0).UTC(),
				Origin: "upload",
			},
			{
				ID: edgewise.ModelID{Name: "cat", Version: 2}, Digest: "d2", Size: 4, Created: time.Unix(0, 0).UTC(),
				Origin: "import", Files: []edgewise.File{{Path: "model.onnx", Size: 4, Digest: "f"}},
			},
		},
		Labels: []edgewise.Label{{Name: "live", Version: 2, Changed: time.Unix(0, 0).UTC()}},
	}
	statuses := []edgewise.Status{
		{ID: edgewise.ModelID{Name: "dog", Version: 1}, State: edgewise.StateReady},
		{ID: edgewise.ModelID{Name: "cat", Version: 2}, State: edgewise.StateUnavailable, Reason: "no such file"},
	}
	m := NewModel(record, statuses, nil)
	got, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"name":"cat","wanted":true,"labels":[{"name":"live","version":2,"changed":"1970-01-01T00:00:00Z"}],"versions":[` +
		`{"name":"cat","version":1,"digest":"d1","size":3,"created":"1970-01-01T00:00:00Z","origin":"upload","files":[]},` +
		`{"name":"cat","version":2,"digest":"d2","size":4,"created":"1970-01-01T00:00:00Z","origin":"import",` +
		`"files":[{"path":"model.onnx","size":4,"digest":"f"}],` +
		`"state":"UNAVAILABLE","reason":"no such file"}]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if m.Label("live") != 2 || m.Label("blue") != 0 {
		t.Errorf("Label: live %d, blue %d, want 2 and 0", m.Label("live"), m.Label("blue"))
	}
}

func TestListsOfAnEmptyModelAreNotNull(t *testing.T) {
	got, err := json.Marshal(NewModel(&edgewise.Record{Name: "cat"}, nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"name":"cat","wanted":false,"labels":[],"versions":[]}`; string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
