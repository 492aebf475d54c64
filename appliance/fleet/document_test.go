package fleet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// ref names a version by a digest that is a digit 64 times.
func ref(digit string) string {
	return "oci://registry.example/models/cat@sha256:" + strings.Repeat(digit, 64)
}

// text is a document with members behind its head.
func text(serial int, members string) string {
	return fmt.Sprintf(`{"format": 1, "fleet": "shops", "serial": %d%s}`, serial, members)
}

// entry is a list of one model with members behind its reference.
func entry(digit, members string) string {
	return fmt.Sprintf(`, "models": [{"model": "cat", "reference": %q%s}]`, ref(digit), members)
}

const twoGroups = `, "groups": {"canary": {"boxes": ["a"]}, "all": {"percent": 100}}`

// labels are so many labels of a group.
func labels(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`"l%d": "x"`, i))
	}
	return strings.Join(list, ", ")
}

// longReference is a document whose reference has a registry and a name of so many bytes.
func longReference(n int) string {
	name := strings.Repeat("r", n)
	return text(1, fmt.Sprintf(`, "models": [{"model": "cat", "reference": "oci://%s@sha256:%s"}]`, name, strings.Repeat("1", 64)))
}

func TestADocumentIsReadStrictly(t *testing.T) {
	many := func(n int, each string) string { return strings.TrimSuffix(strings.Repeat(each+",", n), ",") }
	models := make([]string, maxModels+1)
	groups := make([]string, maxGroups+1)
	for i := range models {
		models[i] = fmt.Sprintf(`{"model": "m%d", "reference": %q}`, i, ref("1"))
	}
	for i := range groups {
		groups[i] = fmt.Sprintf(`"g%d": {}`, i)
	}
	report := `, "report": {"url": "/reports"}`
	waitsFor := func(boxes int) string {
		return text(1, twoGroups+report+entry("1", fmt.Sprintf(`, "stages": [{"group": "canary"}, {"group": "all", "done": %d}]`, boxes)))
	}
	tests := []struct{ name, text, wrong string }{
		{"the least", text(1, ""), ""},
		{"everything", text(9007199254740992, `, "not_before": "2026-01-01T00:00:00Z", "expires": "2027-01-01T00:00:00Z",
			"groups": {"canary": {"boxes": ["a"], "labels": {"site": "berlin"}, "percent": 5}, "all": {"percent": 100}},
			"models": [{"model": "cat", "label": "live", "reference": "`+ref("1")+`", "rollout": {"stages": [{"percent": 5, "requests": 100}]},
				"stages": [{"group": "canary"}, {"group": "all", "done": 2}]}],
			"settings": {"keep_versions": 3, "metrics_public": true}, "report": {"url": "oci://registry.example/reports",
			"webhook": "https://hook.example/x"}`), ""},
		{"not JSON", `{"format": 1`, "fleet.json"},
		{"an unknown member", text(1, `, "model": []`), `unknown field "model"`},
		{"another format", `{"format": 2, "fleet": "shops", "serial": 1}`, "format is 2"},
		{"no serial", `{"format": 1, "fleet": "shops"}`, "serial is 0"},
		{"a serial beyond what JSON keeps", text(9007199254740993, ""), "serial"},
		{"no name", `{"format": 1, "serial": 1}`, "fleet:"},
		{"it ends before it begins", text(1, `, "not_before": "2027-01-01T00:00:00Z", "expires": "2026-01-01T00:00:00Z"`), "expires"},
		{"a tag", text(1, `, "models": [{"model": "cat", "reference": "oci://registry.example/cat:3"}]`), "a tag may move"},
		{
			"a user in a reference", text(1, `, "models": [{"model": "cat", "reference": "oci://me@r/cat@sha256:`+strings.Repeat("1", 64)+`"}]`),
			"a tag may move",
		},
		{"a label that is a number", text(1, entry("1", `, "label": "3"`)), "must not look like a version"},
		{"a label twice", text(1, `, "models": [`+many(2, fmt.Sprintf(`{"model": "cat", "reference": %q}`, ref("1")))+`]`), "in it twice"},
		{"the most models", text(1, `, "models": [`+strings.Join(models[1:], ",")+`]`), ""},
		{"too many models", text(1, `, "models": [`+strings.Join(models, ",")+`]`), "at most 256"},
		{"the most groups", text(1, `, "groups": {`+strings.Join(groups[1:], ",")+`}`), ""},
		{"too many groups", text(1, `, "groups": {`+strings.Join(groups, ",")+`}`), "at most 64"},
		{"the most boxes", text(1, `, "groups": {"g": {"boxes": [`+many(maxBoxes, `"a"`)+`]}}`), ""},
		{"too many boxes", text(1, `, "groups": {"g": {"boxes": [`+many(maxBoxes+1, `"a"`)+`]}}`), "at most 1000"},
		{"the most labels", text(1, `, "groups": {"g": {"labels": {`+labels(maxLabels)+`}}}`), ""},
		{"too many labels", text(1, `, "groups": {"g": {"labels": {`+labels(maxLabels+1)+`}}}`), "at most 16"},
		{"all", text(1, `, "groups": {"g": {"percent": 100}}`), ""},
		{"none", text(1, `, "groups": {"g": {"percent": 0}}`), ""},
		{"less than none", text(1, `, "groups": {"g": {"percent": -0.1}}`), "percent is -0.1"},
		{"the longest name of a group", text(1, `, "groups": {"`+strings.Repeat("g", 64)+`": {}}`), ""},
		{"too long a name of a group", text(1, `, "groups": {"`+strings.Repeat("g", 65)+`": {}}`), "at most 64"},
		{"more than all", text(1, `, "groups": {"g": {"percent": 101}}`), "percent is 101"},
		{"a group's name", text(1, `, "groups": {"Canary": {}}`), "lower-case"},
		{"a group's name that is taken", text(1, `, "groups": {"boxes": {}}`), "lower-case"},
		{"no such group", text(1, entry("1", `, "stages": [{"group": "x"}]`)), `no group "x"`},
		{"a stage without reports", text(1, twoGroups+entry("1", `, "stages": [{"group": "canary"}, {"group": "all"}]`)), "report.url"},
		{"the first stage waits for none", text(1, twoGroups+report+entry("1", `, "stages": [{"group": "canary", "done": 1}]`)), "stages[0]"},
		{"the most boxes to wait for", waitsFor(100), ""},
		{"too many boxes to wait for", waitsFor(101), "done is 101"},
		{"the most stages", text(1, twoGroups+report+entry("1", `, "stages": [`+many(maxStages, `{"group": "all"}`)+`]`)), ""},
		{"waits for nobody", waitsFor(0), "done is 0"},
		{"too many stages", text(1, twoGroups+report+entry("1", `, "stages": [`+many(maxStages+1, `{"group": "all"}`)+`]`)), "at most 8"},
		{"a rollout that names a version", text(1, entry("1", `, "rollout": {"version": 3}`)), "names no version"},
		{"a rollout of another label", text(1, entry("1", `, "label": "test", "rollout": {}`)), "for the label live"},
		{"reports to a web server", text(1, `, "report": {"url": "https://x.example/"}`), "report.url"},
		{"a webhook that is none", text(1, `, "report": {"webhook": "ftp://x.example/"}`), "report.webhook"},
		{"the longest reference", longReference(501), ""},
		{"too long a reference", longReference(502), "a tag may move"},
		{"the longest place of reports", text(1, `, "report": {"url": "/`+strings.Repeat("x", 505)+`"}`), ""},
		{"too long a place of reports", text(1, `, "report": {"url": "/`+strings.Repeat("x", 506)+`"}`), "report.url"},
		{"the longest webhook", text(1, `, "report": {"webhook": "https://`+strings.Repeat("x", 1000)+`"}`), ""},
		{"too long a webhook", text(1, `, "report": {"webhook": "https://`+strings.Repeat("x", 1001)+`"}`), "report.webhook"},
		{"the largest", text(1, strings.Repeat(" ", MaxDocument-len(text(1, "")))), ""},
		{"too large", text(1, strings.Repeat(" ", MaxDocument-len(text(1, ""))+1)), "at most 262144"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Decode([]byte(tt.text))
			switch {
			case tt.wrong == "" && err != nil:
				t.Error(err)
			case tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)):
				t.Errorf("%v: want %q", err, tt.wrong)
			case tt.wrong != "" && edgewise.KindOf(err) != edgewise.Invalid && edgewise.KindOf(err) != edgewise.TooLarge:
				t.Errorf("%v is of the kind %v", err, edgewise.KindOf(err))
			}
		})
	}
}
