package fleet

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/api/admin"
)

// TestADocumentOfALaterReleaseKeepsOlderOnesOut takes the program back to a release that cannot read what the box follows.
func TestADocumentOfALaterReleaseKeepsOlderOnesOut(t *testing.T) {
	w, s, source := newWorld(t), newSigner(t), t.TempDir()
	later := strings.Replace(text(9, entry("1", "")), `"format": 1`, `"format": 2`, 1)
	was := accepted{Fleet: "shops", Serial: 9, Text: []byte(later), Signature: s.sign(later), Digest: digestOf([]byte(later))}
	kept, err := json.Marshal(was)
	if err != nil {
		t.Fatal(err)
	}
	w.documents[Bucket] = map[string][]byte{acceptedKey: kept}
	s.put(t, source, text(8, entry("2", "")))
	wantState(t, w.box(s, "b", source).turn(t.Context()), admin.FleetHeld, "has followed 9 already")
	if w.installs != 0 {
		t.Error("it has begun something")
	}
	s.put(t, source, text(10, entry("2", "")))
	wantState(t, w.box(s, "b", source).turn(t.Context()), admin.FleetConverged, "")
}

func TestBoxesReportUnderNamesOfTheirOwn(t *testing.T) {
	seen := map[string]string{}
	for _, box := range []string{"a", "a b", "a_b", "a/b", "../b", "ä", "b"} {
		for _, url := range []string{"/reports/", "oci://r/reports"} {
			place, file := reportName(url, "canary", box)
			if other, there := seen[place+"/"+file]; there || strings.Contains(file, "/") || strings.Contains(place, "..") {
				t.Errorf("%s reports to %s %s, as %s", box, place, file, other)
			}
			seen[place+"/"+file] = box
		}
	}
}
