package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/api/fetch"
)

// answers serves a folder of texts; a number in place of a text is a status.
func answers(t *testing.T, files map[string]string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, there := files[strings.TrimPrefix(r.URL.Path, "/shops/")]
		switch {
		case !there:
			http.NotFound(w, r)
		case text == "500":
			w.WriteHeader(http.StatusInternalServerError)
		case text == "403":
			w.WriteHeader(http.StatusForbidden)
		default:
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
		}
	}))
	t.Cleanup(s.Close)
	return s.URL + "/shops"
}

func TestTheFilesOfAFleetAreReadFromAWebServer(t *testing.T) {
	url := answers(t, map[string]string{"fleet.json": "document", "fleet.json.minisig": "signature"})
	p, err := Open(context.Background(), &fetch.Request{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	err = p.List(context.Background(), func(list []fetch.Entry) error {
		for _, e := range list {
			body, err := p.Open(context.Background(), e, 3)
			if err != nil {
				return err
			}
			text, err := io.ReadAll(body)
			_ = body.Close()
			if got[e.Name] = string(text); err != nil || int64(len(text)+3) != e.Size {
				t.Errorf("%s has %d bytes from the fourth on, of %d: %v", e.Name, len(text), e.Size, err)
			}
		}
		return nil
	})
	if err != nil || len(got) != 2 || got["fleet.json"] != "ument" || got["fleet.json.minisig"] != "nature" {
		t.Errorf("%v: %v", err, got)
	}
}

func TestFailuresOfAWebServer(t *testing.T) {
	for want, files := range map[string]map[string]string{
		fetch.NotFound: {}, fetch.Unavailable: {"fleet.json": "500"}, fetch.Denied: {"fleet.json": "403"},
	} {
		p, _ := Open(context.Background(), &fetch.Request{URL: answers(t, files)})
		err := p.List(context.Background(), func([]fetch.Entry) error { return nil })
		if f, ok := errors.AsType[*fetch.Failure](err); !ok || f.Kind != want {
			t.Errorf("%v, want the kind %s", err, want)
		}
	}
	p, _ := Open(context.Background(), &fetch.Request{URL: "http://127.0.0.1:1/"})
	err := p.List(context.Background(), nil)
	if f, ok := errors.AsType[*fetch.Failure](err); !ok || f.Kind != fetch.Unavailable {
		t.Error(err)
	}
}
