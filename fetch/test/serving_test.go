//go:build cloud

package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"

	"github.com/edgewise-ai/edgewise/api/fetch"
)

// polled are the arguments of a box that polls a tree each second.
func polled(url string) []string {
	return []string{"--model-repository=" + url, "--model-control-mode=poll", "--repository-poll-secs=1"}
}

// allVersions puts the configuration of vad into a store, for all its versions, and returns its model and another one with the
// same answers.
func allVersions(t *testing.T, s *store) (first, second []byte) {
	t.Helper()
	config, model := vad(t)
	s.put("models/vad/config.pbtxt", append(config, "\nversion_policy { all {} }\n"...))
	property := []byte{0x72, 6, 0x0a, 1, 'k', 0x12, 1, 'v'}
	return model, append(bytes.Clone(model), property...)
}

// allow has versitygw know one user, who may do everything; without a name it knows none.
func (s *store) allow(name, secret string) {
	s.t.Helper()
	accounts := map[string]any{}
	if name != "" {
		accounts[name] = map[string]any{"access": name, "secret": secret, "role": "admin"}
	}
	text, err := json.Marshal(map[string]any{"accessAccounts": accounts})
	must(s.t, err)
	must(s.t, os.WriteFile(s.users+".new", text, 0o600))
	must(s.t, os.Rename(s.users+".new", s.users))
}

// TestABoxServesWhileItsCredentialsAreRevoked takes the user of a box away from a store, and gives the box another one.
func TestABoxServesWhileItsCredentialsAreRevoked(t *testing.T) {
	s := newS3(t)
	first, second := allVersions(t, s)
	s.put("models/vad/1/model.onnx", first)
	file := filepath.Join(t.TempDir(), "cloud.json")
	credentials := func(name, secret string) {
		must(t, os.WriteFile(file, fmt.Appendf(nil, `{"s3": {"": {"key_id": %q, "secret_key": %q}}}`, name, secret), 0o600))
	}
	s.allow("box", "hush-one")
	credentials("box", "hush-one")
	data, env := t.TempDir(), []string{"TRITON_CLOUD_CREDENTIAL_PATH=" + file}
	b := startBox(t, data, env, polled(s.urls[0])...)
	b.wantModel("vad", 200)
	s.allow("", "")
	s.put("models/vad/2/model.onnx", second)
	b.wantSaid("denied")
	b.wantModel("vad", 200)
	b.wantModel("vad/versions/2", 400)
	b.stop()
	b = startBox(t, data, env, polled(s.urls[0])...)
	b.wantSaid("denied")
	b.wantModel("vad", 200)
	s.allow("other", "hush-two")
	credentials("other", "hush-two")
	b.wantModel("vad/versions/2", 200)
	if strings.Contains(b.said(), "hush") {
		t.Error("the log holds a secret")
	}
	b.stop()
}

// TestASignatureOfAzureThatHasExpiredIsRefused signs URLs for an hour, and for one that is over.
func TestASignatureOfAzureThatHasExpiredIsRefused(t *testing.T) {
	s := newAS(t)
	s.put("models/a/1/model.onnx", []byte("x"))
	shared, err := azblob.NewSharedKeyCredential(account, key)
	must(t, err)
	c, err := container.NewClientWithSharedKeyCredential("http://"+s.address+"/"+account+"/bucket", shared, nil)
	must(t, err)
	for _, test := range []struct {
		name   string
		expiry time.Time
		kind   string
	}{{"valid", time.Now().Add(time.Hour), "<nil>"}, {"expired", time.Now().Add(-time.Hour), fetch.Denied}} {
		signed, err := c.GetSASURL(sas.ContainerPermissions{Read: true, List: true}, test.expiry, nil)
		must(t, err)
		_, token, _ := strings.Cut(signed, "?")
		env := append(bare(s), "AZURE_STORAGE_SAS_TOKEN="+token)
		_, err = startProgram(t, env).list(s.urls[0])
		if kind(err) != test.kind || strings.Contains(fmt.Sprint(err), "sig=") {
			t.Errorf("%s: %v, want %s", test.name, err, test.kind)
		}
	}
}

// TestABoxServesWhileItsBucketIsSpoiled has a new version whose bytes do not come as they should.
func TestABoxServesWhileItsBucketIsSpoiled(t *testing.T) {
	s := newS3(t)
	first, second := allVersions(t, s)
	s.put("models/vad/1/model.onnx", first)
	between := startBetween(t, s.address)
	b := startBox(t, t.TempDir(), s.env, polled("s3://"+between.address+"/bucket/models")...)
	b.wantModel("vad", 200)
	of2 := func(r *http.Request) bool { return r.Method == "GET" && strings.Contains(r.URL.Path, "/vad/2/") }
	flip := func(r *http.Response) error {
		if of2(r.Request) {
			r.Body = &spoiled{r.Body, func(p []byte) (int, error) {
				if len(p) > 0 {
					p[0] ^= 1
				}
				return len(p), nil
			}}
		}
		return nil
	}
	between.edit.Store(&flip)
	s.put("models/vad/2/model.onnx", second)
	b.wantSaid("corrupt")
	b.wantModel("vad", 200)
	for _, code := range []int{500, 429, 403} {
		var refused atomic.Int64
		refuse := func(w http.ResponseWriter, r *http.Request) bool {
			refused.Add(1)
			w.WriteHeader(code)
			return true
		}
		between.spoil.Store(&refuse)
		eventually(t, fmt.Sprint("a request that gets ", code), func() bool { return refused.Load() > 4 })
		b.wantModel("vad", 200)
		b.wantModel("vad/versions/2", 400)
	}
	between.edit.Store(nil)
	between.spoil.Store(nil)
	b.wantModel("vad/versions/2", 200)
	b.stop()
}

// TestABoxThatIsKilledWhileItFetchesGoesOn kills a box at each step of its first start, and starts it again.
func TestABoxThatIsKilledWhileItFetchesGoesOn(t *testing.T) {
	s := newS3(t)
	first, _ := allVersions(t, s)
	s.put("models/vad/1/model.onnx", first)
	beside := noise(96 << 20) // what is on its way at a kill is little of it
	s.put("models/vad/1/beside.bin", beside)
	between := startBetween(t, s.address)
	arguments := append(polled("s3://"+between.address+"/bucket/models"), "--set", "safe_start=false") // it is killed more than twice
	b := newBox(t, t.TempDir(), s.env, arguments...)
	lists := func(r *http.Request) bool { return r.URL.Query().Get("list-type") != "" }
	objects := func(r *http.Request) bool { return r.Method == "GET" && !lists(r) }
	for _, step := range []struct {
		name  string
		asked func(*http.Request) bool // the request at which the box is killed
		bytes int64                    // and how many bytes of objects had come
	}{
		{"it lists", lists, 0},
		{"it asks for an object", objects, 0},
		{"a part has come", nil, 20 << 20},
		{"more has come", nil, 70 << 20},
		{"all has come", nil, int64(len(beside) + len(first))},
	} {
		c := b.server.command()
		var at atomic.Bool
		kill := func() {
			if at.CompareAndSwap(false, true) {
				_ = syscall.Kill(c.Process.Pid, syscall.SIGKILL)
			}
		}
		edit := func(r *http.Response) error {
			r.Body = &spoiled{r.Body, func(p []byte) (int, error) {
				if step.bytes > 0 && between.bodies.Load() >= step.bytes {
					kill()
				}
				return len(p), nil
			}}
			return nil
		}
		spoil := func(_ http.ResponseWriter, r *http.Request) bool {
			if step.asked != nil && step.asked(r) {
				kill()
			}
			return false
		}
		between.edit.Store(&edit)
		between.spoil.Store(&spoil)
		must(t, c.Start())
		if err := c.Wait(); err == nil || !at.Load() {
			t.Fatalf("%s: %v, killed %v:\n%s", step.name, err, at.Load(), b.said())
		}
	}
	between.edit.Store(nil)
	between.spoil.Store(nil)
	b.server.start(t)
	t.Cleanup(b.server.stop)
	b.wantModel("vad", 200)
	total := int64(len(beside) + len(first))
	if came := between.bodies.Load(); came > total*3/2 {
		t.Errorf("%d bytes came of %d", came, total)
	}
	t.Logf("%.2f of the model came", float64(between.bodies.Load())/float64(total))
}
