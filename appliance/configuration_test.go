package appliance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// configured edits the configuration of version 1 of "net".
func (v *visitor) configured(edit admin.ConfigurationEdit) (c admin.VersionConfiguration) {
	v.running.t.Helper()
	if status, text := v.ask("POST", "/api/v1/models/net/versions/1/configuration", edit, &c); status != 200 {
		v.running.t.Fatalf("%d %s", status, text)
	}
	return c
}

func TestAConfigurationIsEditedSeenAndStoredAsANewVersion(t *testing.T) {
	_, anna := runReal(t)
	anna.live("net", onnxgen.MLP(1).Bytes())
	var c admin.VersionConfiguration
	if status, text := anna.ask("GET", "/api/v1/models/net/versions/1/configuration", nil, &c); status != 200 ||
		c.File != "" || c.Text != "" || c.Config == nil || c.Compared != 1 || len(c.Differences) != 0 {
		t.Fatalf("%d %s", status, text)
	}
	text := "# by hand\nmax_batch_size: 8\n"
	c = anna.configured(admin.ConfigurationEdit{Text: &text, Set: json.RawMessage(`{"instance_group": [{"count": 3}]}`)})
	if want := text + "instance_group [\n  {\n    count: 3\n  }\n]\n"; c.Text != want || c.Config.Instances() != 3 ||
		c.Declared.MaxBatchSize != 8 || len(c.Problems) != 0 {
		t.Fatalf("%+v", c)
	}
	if !slices.ContainsFunc(c.Differences, func(d admin.Difference) bool {
		return d.What == "config.instance_group" && d.Change == "changed" && strings.Contains(d.To, "count: 3")
	}) {
		t.Errorf("%+v", c.Differences)
	}
	res := anna.tus("POST", "/api/v1/models/net/versions?from=1&file=config.pbtxt&promote=true", []byte(c.Text),
		"Content-Type", "application/octet-stream")
	if res.StatusCode != 201 {
		t.Fatalf("%d %s", res.StatusCode, res.Header.Get("X-Body"))
	}
	var d admin.VersionDetail
	if status, text := anna.ask("GET", "/api/v1/models/net/versions/2", nil, &d); status != 200 || d.State != "READY" ||
		d.Config.Instances() != 3 || len(d.Files) != 2 ||
		d.Origin != "version 1" {
		t.Errorf("%d %s", status, text)
	}
	// Version 1 is as it was, and differs from what is live now.
	if c = anna.configured(admin.ConfigurationEdit{}); c.Text != "" || c.Compared != 2 || len(c.Differences) == 0 {
		t.Errorf("%+v", c)
	}
}

func TestAConfigurationTakesThePlaceOfThatOfItsBase(t *testing.T) {
	_, anna := runReal(t)
	anna.live("net", onnxgen.MLP(1).Bytes())
	push := func(file, text string, from int) int {
		path := fmt.Sprintf("/api/v1/models/net/versions?from=%d&file=%s&promote=false", from, file)
		return anna.tus("POST", path, []byte(text), "Content-Type", "application/octet-stream").StatusCode
	}
	if status := push("config.json", `{"max_batch_size": 4}`, 1); status != 201 {
		t.Fatal(status)
	}
	var c admin.VersionConfiguration
	if _, text := anna.ask("GET", "/api/v1/models/net/versions/2/configuration", nil, &c); c.File != "config.json" ||
		c.Text != "max_batch_size: 4\n" {
		t.Errorf("%s", text)
	}
	if status := push("config.pbtxt", c.Text, 2); status != 201 {
		t.Errorf("%d", status)
	}
	var d admin.VersionDetail
	anna.ask("GET", "/api/v1/models/net/versions/3", nil, &d)
	if len(d.Files) != 2 || d.Files[0].Path != "config.pbtxt" || d.MaxBatchSize != 4 {
		t.Errorf("%+v", d)
	}
	if status := push("config.pbtxt", "", 9); status != 404 {
		t.Errorf("from a version that there is not: %d", status)
	}
}

func TestWhatIsWrongWithAConfigurationIsToldByItsLine(t *testing.T) {
	_, anna := runReal(t)
	anna.live("net", onnxgen.MLP(1).Bytes())
	for _, test := range []struct {
		name, text, want string
		line             int
	}{
		{"syntax", "# a\nmax_batch_size: {", "want", 2},
		{"an unknown field", "\nmax_batch_sise: 1\n", "did you mean", 2},
		{"a value", "\n\ninstance_group { count: 900 }\n", "instance_group", 3},
		{"what the box has not", "runtime: \"x\"\n", "runtime", 1},
	} {
		c := anna.configured(admin.ConfigurationEdit{Text: &test.text})
		if len(c.Problems) == 0 || c.Problems[0].Line != test.line || !strings.Contains(c.Problems[0].Text, test.want) ||
			c.Config != nil || c.Text != test.text {
			t.Errorf("%s: %+v", test.name, c)
		}
	}
	if status, text := anna.ask("POST", "/api/v1/models/net/versions/1/configuration",
		admin.ConfigurationEdit{Set: json.RawMessage(`{"instances": 2}`)}, nil); status != 400 {
		t.Errorf("%d %s", status, text)
	}
	if status, text := anna.ask("GET", "/api/v1/models/net/versions/9/configuration", nil, nil); status != 404 {
		t.Errorf("%d %s", status, text)
	}
}
