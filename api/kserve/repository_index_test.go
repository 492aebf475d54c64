package kserve

import (
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

func TestIndexEntry(t *testing.T) {
	for _, test := range []struct {
		status edgewise.Status
		want   IndexEntry
	}{
		{edgewise.Status{ID: edgewise.ModelID{Name: "m"}}, IndexEntry{Name: "m"}},
		{
			edgewise.Status{ID: edgewise.ModelID{Name: "m"}, Reason: "model appears in two or more repositories"},
			IndexEntry{Name: "m", State: "UNAVAILABLE", Reason: "model appears in two or more repositories"},
		},
		{
			edgewise.Status{ID: edgewise.ModelID{Name: "m", Version: 2}, State: edgewise.StateReady},
			IndexEntry{Name: "m", Version: "2", State: "READY"},
		},
	} {
		if got := NewIndexEntry(test.status); got != test.want {
			t.Errorf("%+v: got %+v, want %+v", test.status, got, test.want)
		}
	}
}

func TestReadIndexRequest(t *testing.T) {
	const noBool = "Invalid value for 'ready': expected a boolean, got "
	deep := strings.Repeat("[", 250_000)
	for _, test := range []struct {
		name, body string
		ready      bool
		want       string // of the error; empty: none
	}{
		{"empty", " \n", false, ""},
		{"nothing said", "{}", false, ""},
		{"ready", ` { "ready" : true } `, true, ""},
		{"not only ready, and more", `{"x":[{"y":null}],"ready":false}`, false, ""},
		{"a number", `{"ready":1}`, false, noBool + "a number"},
		{"deep", `{"ready":` + deep, false, noBool + "an array"},
		{"deep and unknown", `{"x":` + deep, false, "JSON nesting depth exceeds maximum allowed limit (100)"},
		{"an array", "[]", false, "failed to parse the request JSON buffer: Invalid value. at 0"},
		{"more behind it", "{} {}", false, "failed to parse the request JSON buffer: The document root must not be " +
			"followed by other values. at 3"},
	} {
		got, err := ReadIndexRequest([]byte(test.body))
		text := ""
		if err != nil {
			text = err.Error()
		}
		if got.Ready != test.ready || text != test.want {
			t.Errorf("%s: got %v, %q", test.name, got.Ready, text)
		}
	}
}
