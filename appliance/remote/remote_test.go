package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/fetch"
	"github.com/edgewise-ai/edgewise/api/repository"
)

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func TestATreeIsListedAndItsFilesAreFetchedOnce(t *testing.T) {
	s := newStore(t, "cat/config.pbtxt", "cat/1/model.onnx", "cat/2/model.onnx", "dog/1/model.onnx")
	tree := s.open()
	s.must(tree.Refresh(t.Context()))
	if got := names(tree); got != "cat dog" {
		t.Fatalf("models %q", got)
	}
	if _, err := read(tree, "cat/1/model.onnx"); err == nil {
		t.Error("a file can be read that was not fetched")
	}
	folders, _, err := tree.Tree().Folders()
	s.must(err)
	contents, err := folders[0].Contents("")
	s.must(err)
	s.must(repository.Fetch(t.Context(), contents.Versions[2]))
	if got, err := read(tree, "cat/2/model.onnx"); got != "content of cat/2/model.onnx" || err != nil {
		t.Errorf("it reads %q, %v", got, err)
	}
	received := tree.Received()
	s.order("down get")
	s.must(repository.Fetch(t.Context(), contents.Versions[2]))
	if tree.Received() != received || received != int64(len("content of cat/2/model.onnx")) {
		t.Errorf("%d bytes were received, then %d", received, tree.Received())
	}
}

func TestTheLastGoodStateIsThereAfterARestartWithoutTheStore(t *testing.T) {
	s := newStore(t, "cat/config.pbtxt", "cat/1/model.onnx", "dog/1/model.onnx")
	tree := s.open()
	s.must(tree.Refresh(t.Context()))
	s.must(fetchAll(t.Context(), tree))
	folders, _, err := tree.Tree().Folders()
	s.must(err)
	s.must(folders[0].Keep())
	s.put("cat/2/model.onnx", "new")
	s.order("down")
	tree = s.open()
	s.wantError(tree.Refresh(t.Context()), edgewise.Unavailable, "s3://bucket/models", "connection refused")
	if got := names(tree); got != "cat" {
		t.Fatalf("models %q", got)
	}
	if got, err := read(tree, "cat/1/model.onnx"); got != "content of cat/1/model.onnx" || err != nil {
		t.Errorf("it reads %q, %v", got, err)
	}
	s.order("")
	s.must(tree.Refresh(t.Context()))
	if got := names(tree); got != "cat dog" {
		t.Errorf("models %q", got)
	}
}

func TestWhatIsWrongIsSaidWithoutSecrets(t *testing.T) {
	for _, test := range []struct {
		order string
		kind  edgewise.Kind
		text  string
	}{
		{"down", edgewise.Unavailable, "s3://bucket/models: unavailable: connection refused"},
		{"denied", edgewise.Denied, "s3://bucket/models: denied: key may not"},
		{"die", edgewise.Unavailable, "exit status 3"},
		{"babble", edgewise.Unavailable, "does not keep to the protocol"},
	} {
		t.Run(test.order, func(t *testing.T) {
			s := newStore(t)
			s.order(test.order)
			s.config.Repository.CredentialsFile = filepath.Join(t.TempDir(), "credentials.json")
			s.must(os.WriteFile(s.config.Repository.CredentialsFile, []byte(`{"s3": {"": {"key_id": "key", "secret_key": "hush"}}}`), 0o600))
			err := s.open().Refresh(t.Context())
			s.wantError(err, test.kind, test.text)
			if strings.Contains(err.Error()+s.log.String(), "hush") {
				t.Error("the secret is in a message")
			}
		})
	}
	s := newStore(t)
	tree := s.open()
	tree.program = "/nonexistent/edgewise-fetch"
	s.wantError(tree.Refresh(t.Context()), edgewise.Unsupported, "not installed", "/nonexistent/edgewise-fetch", "make fetch")
}

func TestAFileThatChangesWhileItIsFetchedIsNamed(t *testing.T) {
	s := newStore(t, "cat/1/model.onnx", "cat/1/weights")
	tree := s.open()
	s.must(tree.Refresh(t.Context()))
	s.put("cat/1/weights", "others")
	s.wantError(fetchAll(t.Context(), tree), edgewise.Unavailable, "s3://bucket/models/cat/1/weights: changed")
	s.must(tree.Refresh(t.Context()))
	s.must(fetchAll(t.Context(), tree))
}

func TestAFetchThatIsGivenUpEndsItsProgram(t *testing.T) {
	s := newStore(t)
	s.order("silent")
	tree := s.open()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() { failed <- tree.Refresh(ctx) }()
	for len(tree.busy) == 0 && len(failed) == 0 {
		runtime.Gosched()
	}
	cancel()
	s.wantError(<-failed, edgewise.Canceled)
	s.order("")
	s.put("cat/1/model.onnx", "x")
	s.must(tree.Refresh(t.Context()))
}

func TestTheProgramReadsNothingOfTheBox(t *testing.T) {
	s := newStore(t)
	s.order("peek")
	s.wantError(s.open().Refresh(t.Context()), edgewise.Denied, "open /etc/passwd: permission denied")
}

func TestAFileThatTheDiskHasChangedIsFetchedAgain(t *testing.T) {
	s := newStore(t, "cat/1/model.onnx")
	tree := s.open()
	s.must(tree.Refresh(t.Context()))
	s.must(fetchAll(t.Context(), tree))
	digest := digestOf([]byte("content of cat/1/model.onnx"))
	s.must(os.WriteFile(tree.file(digest), []byte("c0ntent of cat/1/model.onnx"), 0o600))
	_, err := read(tree, "cat/1/model.onnx")
	s.wantError(err, edgewise.Corrupt, "cat/1/model.onnx", "damaged")
	s.must(fetchAll(t.Context(), tree))
	if got, err := read(tree, "cat/1/model.onnx"); got != "content of cat/1/model.onnx" || err != nil {
		t.Errorf("it reads %q, %v", got, err)
	}
}

func TestFilesThatNothingUsesAreRemoved(t *testing.T) {
	s := newStore(t, "cat/1/model.onnx", "dog/1/model.onnx")
	tree := s.open()
	s.must(tree.Refresh(t.Context()))
	s.must(fetchAll(t.Context(), tree))
	folders, _, err := tree.Tree().Folders()
	s.must(err)
	for _, f := range folders {
		s.must(f.Keep())
	}
	tree.Prune(func(f repository.Folder) bool { return f.Name == "dog" })
	for name, want := range map[string]bool{"cat/1/model.onnx": false, "dog/1/model.onnx": true} {
		if _, err := read(tree, name); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	for folder, want := range map[string]int{"files": 1, "keys": 1, "models": 1} {
		if entries, _ := os.ReadDir(filepath.Join(tree.folder, folder)); len(entries) != want {
			t.Errorf("%s has %d entries, want %d", folder, len(entries), want)
		}
	}
}

func TestNamesThatAreNoPathsAreLeftOut(t *testing.T) {
	s := newStore(t)
	tree := s.open()
	snapshot, refused := newSnapshot(tree, []fetch.Entry{
		{Name: "a/1/model.onnx"},
		{Name: "../x"},
		{Name: "/x"},
		{Name: "a//b"},
		{Name: "a/./b"},
		{Name: `a\b`},
		{Name: "a/\x00"},
		{Name: "empty/1/"},
		{Name: "a/1/model.onnx/more"},
		{Name: ""},
		{Name: "/"},
	})
	if refused != 8 {
		t.Errorf("%d names are refused", refused)
	}
	for name, folder := range map[string]bool{
		"a/1": true, "a/1/model.onnx": true, "a/1/model.onnx/more": false, "empty/1": true,
	} {
		if info, err := snapshot.Stat(name); err != nil || info.IsDir() != folder {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// TestCredentialsOfTheLongestBeginningCount reads a file in Triton's form.
func TestCredentialsOfTheLongestBeginningCount(t *testing.T) {
	dir := t.TempDir()
	file, google := filepath.Join(dir, "cloud.json"), filepath.Join(dir, "google.json")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(google, `{"type": "service_account"}`)
	write(file, fmt.Sprintf(`{
  "gs": {"": "/none", "gs://mine": %q},
  "s3": {"": {"key_id": "any", "secret_key": "a"},
    "s3://b": {"key_id": "b", "secret_key": "bb", "region": "r", "session_token": "t", "profile": "p"}},
  "as": {"as://one/c": {"account_str": "one", "account_key": "k"}}
}`, google))
	for _, test := range []struct {
		url  string
		want fetch.Credentials
		text string // of the error
	}{
		{"s3://a/x", fetch.Credentials{KeyID: "any", SecretKey: "a"}, ""},
		{"s3://bucket", fetch.Credentials{KeyID: "b", SecretKey: "bb", Region: "r", SessionToken: "t", Profile: "p"}, ""},
		{"gs://mine/x", fetch.Credentials{ServiceAccount: `{"type": "service_account"}`}, ""},
		{"gs://other", fetch.Credentials{}, "the file of credentials cannot be read: open /none"},
		{"as://one/container/x", fetch.Credentials{Account: "one", AccountKey: "k"}, ""},
		{"as://two/container/x", fetch.Credentials{}, "has no credentials for it"},
		{"oci://registry/x", fetch.Credentials{}, ""},
	} {
		got, err := credentialsOf(file, test.url)
		if !reflect.DeepEqual(got, test.want) || (err == nil) != (test.text == "") || err != nil && !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: %+v, %v", test.url, got, err)
		}
	}
	write(file, `{"s3": {"": {"secret_key": "hush`)
	if _, err := credentialsOf(file, "s3://a"); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("a broken file: %v", err)
	}
}
