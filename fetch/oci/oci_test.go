package oci

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/edgewise-ai/edgewise/api/fetch"
)

func files() map[string]string {
	return map[string]string{
		"config.pbtxt": "max_batch_size: 8\n", "model.onnx": random(300_000), "labels/de.txt": "Katze", "labels/en.txt": "Katze",
		"empty.txt": "",
	}
}

// laid are the files of a version where they stand in Triton's layout.
func laid(files map[string]string, number string) map[string]string {
	out := map[string]string{}
	for name, text := range files {
		if isConfiguration(name) {
			out["cat/"+name] = text
		} else {
			out["cat/"+number+"/"+name] = text
		}
	}
	return out
}

func TestAPublishedVersionComesBackByTagAndByDigest(t *testing.T) {
	s := newServer(t, registry.WithReferrersSupport(true))
	want := files()
	d := publish(t, "oci://"+s.host+"/box/cat:3", want)
	for _, at := range []string{":3", "@" + d} {
		got, err := pull(t, fetch.Request{URL: "oci://" + s.host + "/box/cat" + at}, t.TempDir())
		if err != nil || !maps.Equal(got, laid(want, "1")) {
			t.Errorf("%s: %v: %d files, want %d", at, err, len(got), len(want))
		}
	}
	artifacts, _, err := list(t, fetch.Request{URL: s.host + "/box/cat:3"})
	if err != nil || len(artifacts) != 1 || artifacts[0].Digest != d || artifacts[0].Form != fetch.FormModel ||
		artifacts[0].Annotations["org.opencontainers.image.created"] == "" {
		t.Errorf("%v: the artifact is described as %+v", err, artifacts)
	}
}

func TestVersionsAreTheTagsThatAreNumbers(t *testing.T) {
	s := newServer(t)
	first, second := files(), files()
	second["config.pbtxt"] = "max_batch_size: 16\n"
	publish(t, "oci://"+s.host+"/box/cat:2", first)
	publish(t, "oci://"+s.host+"/box/cat:10", second)
	publish(t, "oci://"+s.host+"/box/cat:v3", files())
	got, err := pull(t, fetch.Request{URL: "oci://" + s.host + "/box/cat"}, t.TempDir())
	want := laid(first, "2")
	maps.Copy(want, laid(second, "10"))
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v: got %v", err, slices.Sorted(maps.Keys(got)))
	}
}

func TestWhatTheRegistryHasIsNotSentAgain(t *testing.T) {
	s := newServer(t)
	want := files()
	r := putOf(t, "oci://"+s.host+"/box/cat:1", want)
	var digests []string
	for _, uploads := range []int{5, 0} { // four contents and a configuration
		replies, err := do(t, &r, waits)
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, replies[len(replies)-2].Digest)
		if got := len(s.seen("PUT", "/blobs/")); got != uploads {
			t.Errorf("%d blobs were sent, want %d", got, uploads)
		}
	}
	if digests[0] != digests[1] {
		t.Errorf("the same version has the digests %v", digests)
	}
}

func TestWhatTheBoxHasIsNotFetchedAgain(t *testing.T) {
	s := newServer(t)
	want := files()
	publish(t, "oci://"+s.host+"/box/cat:1", want)
	folder := t.TempDir()
	for _, fetches := range []int{4, 0} { // four contents of five files
		s.seen()
		if got, err := pull(t, fetch.Request{URL: "oci://" + s.host + "/box/cat:1"}, folder); err != nil || len(got) != len(want) {
			t.Fatalf("%v: %d files", err, len(got))
		}
		if got := s.seen("GET", "/blobs/"); len(got) > fetches {
			t.Errorf("%d blobs were fetched, want %d: %v", len(got), fetches, got)
		}
	}
}

func TestAFileGoesOnWhereItsTransferHasEnded(t *testing.T) {
	s := newServer(t)
	want := map[string]string{"model.onnx": random(400_000)}
	publish(t, "oci://"+s.host+"/box/cat:1", want)
	once := false
	s.set(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") || once {
			return false
		}
		once = true
		w.Header().Set("Content-Length", "400000")
		_, _ = w.Write([]byte(want["model.onnx"][:150_000]))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	got, err := pull(t, fetch.Request{URL: "oci://" + s.host + "/box/cat:1"}, t.TempDir())
	if err != nil || !maps.Equal(got, laid(want, "1")) {
		t.Fatalf("%v: got %d files", err, len(got))
	}
	if seen := s.seen("/blobs/", "bytes="); len(seen) != 1 {
		t.Errorf("ranges: %v, want one", seen)
	}
}

func TestPlainTextIsSpokenOnLoopbackAlone(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "localhost:5000": true, "127.0.0.1:5000": true, "[::1]:5000": true, "127.8.9.1": true,
		"registry.example": false, "10.0.0.1:5000": false, "localhost.example:80": false, "0.0.0.0:5000": false,
	} {
		if got := onLoopback(host); got != want {
			t.Errorf("%s: %v", host, got)
		}
	}
}

func TestReferencesThatAreNone(t *testing.T) {
	for _, url := range []string{
		"oci://", "oci://s3://bucket/cat", "oci://registry.example",
		"oci://registry.example/", "oci://registry.example/Cat:1", "oci://registry.example/cat:a b",
		"oci://registry.example/cat@sha256:12", "oci://registry.example/../cat:1", "oci://user:secret@registry.example/cat:1",
		"oci://registry.example/" + strings.Repeat("a", 2000) + ":1", "oci://registry.example/cat:" + strings.Repeat("a", 129),
	} {
		_, _, err := list(t, fetch.Request{URL: url})
		wantFailure(t, err, fetch.Invalid, "is no reference")
	}
}
