package e2e

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/config"
)

func TestTheCommandLineSaysWhatIsWrongWithIt(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		args  []string
		parts []string
	}{
		{"unknown command", []string{"serv"}, []string{`"serv"`}},
		{"unknown command below model", []string{"model", "shove"}, []string{`"shove"`, "edgewise model"}},
		{"no command below model", []string{"model"}, []string{"edgewise model", "push", "rollback"}},
		{"no command below golden", []string{"golden"}, []string{"edgewise golden", "add", "diff"}},
		{"no command below step", []string{"step"}, []string{"edgewise step", "build", "test"}},
		{"no command below update", []string{"update"}, []string{"edgewise update", "install", "rollback"}},
		{"a command below model with an argument", []string{"model", "shove", "cat"}, []string{`"shove"`, "push"}},
		{"a folder too many", []string{"step", "build", "a", "b"}, []string{"[DIR]", "got 2"}},
		{"unknown flag", []string{"model", "list", "--fast"}, []string{"--fast", "edgewise model list --help"}},
		{"a hint that there is not", []string{"serve", "--hint", "all"}, []string{"--hint", `"all"`, "demo"}},
		{"a reset that is not confirmed", []string{"update", "factory-reset"}, []string{"--confirm erase"}},
		{"unknown short flag", []string{"version", "-z"}, []string{"z"}},
		{"too few arguments", []string{"model", "push", "cat"}, []string{"NAME PATH", "got 1"}},
		{"too many arguments", []string{"model", "list", "cat"}, []string{"got 1"}},
		{"value without a flag's type", []string{"model", "push", "cat", "x", "--version", "new"}, []string{"new"}},
		{"output form", []string{"version", "--output", "xml"}, []string{`"xml"`, "text or json"}},
		{"server address", []string{"--server", "box", "model", "list"}, []string{"--server", "box"}},
		{"promote without a version", []string{"model", "promote", "cat"}, []string{"NAME:VERSION"}},
		{"version 0", []string{"model", "promote", "cat:0"}, []string{"cat:0"}},
		{"set without a value", []string{"config", "--set", "data_dir"}, []string{"key=value"}},
		{"scale", []string{"infer", "cat", "--scale", "loud"}, []string{"--scale", "loud"}},
	} {
		t.Run(test.name, func(t *testing.T) { refuses(t, 2, test.parts, test.args...) })
	}
}

func TestExitCodesTellTheKindOfFailure(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir())
	b.must("model", "push", "cat", save(t, biased(1)))
	b.refuses(3, []string{"dog"}, "model", "show", "dog")
	b.refuses(3, []string{"dog"}, "infer", "dog", "-i", "x=none.npy")
	b.refuses(3, []string{"none.npy"}, "infer", "cat", "-i", "none.npy")
	b.refuses(2, []string{`"z=none.npy"`, "the inputs x"}, "infer", "cat", "-i", "z=none.npy")
	b.refuses(4, []string{"live"}, "model", "rm", "cat:1")
	refuses(t, 5, []string{"http://127.0.0.1:1", "refused; is a box running there?", "--server"}, "--server",
		"http://127.0.0.1:1", "model", "list")
	refuses(t, 3, []string{"nowhere.yaml"}, "config", "--config", "nowhere.yaml")

	for _, test := range []struct {
		code string
		args []string
	}{
		{"not_found", []string{"--server", b.url, "model", "show", "dog"}},
		{"conflict", []string{"--server", b.url, "model", "rm", "cat:1"}},
		{"unavailable", []string{"--server", "http://127.0.0.1:1", "model", "list"}},
		{"", []string{"--server", b.url, "model", "promote", "cat"}},
	} {
		out, stderr, code := run(t, nil, append([]string{"--output", "json"}, test.args...)...)
		var body struct{ Error, Code string }
		err := json.Unmarshal([]byte(stderr), &body)
		if err != nil || body.Error == "" || body.Code != test.code || out != "" || code == 0 {
			t.Errorf("%q: exit code %d, standard error %q, standard output %q", test.args, code, stderr, out)
		}
	}
}

func TestVersionHelpAndCompletion(t *testing.T) {
	t.Parallel()
	out, _, code := run(t, nil, "version")
	if code != 0 || !strings.HasPrefix(out, "edgewise 0.") {
		t.Errorf("version: %d %q", code, out)
	}
	out, _, code = run(t, nil, "--output", "json", "version")
	var v map[string]string
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 || v["version"] == "" || v["platform"] == "" {
		t.Errorf("version as JSON: %d %q", code, out)
	}
	out, _, code = run(t, nil, "--help")
	if code != 0 {
		t.Errorf("help: exit code %d", code)
	}
	contains(t, "help", out, "Exit codes:", "  6  stored data is damaged", "serve", "model", "infer", "demo", "doctor",
		"completion")
	out, _, code = run(t, nil, "completion", "bash")
	if code != 0 {
		t.Errorf("completion: exit code %d", code)
	}
	contains(t, "completion", out, "__start_edgewise", "complete -o")
}

func TestConfigTellsEveryProblemWithItsPlace(t *testing.T) {
	t.Parallel()
	file := write(t, "bad.yaml", []byte("http:\n  max_connections: 0\n  adress: \"127.0.0.1:1\"\nlog:\n  level: "+
		"loud\nupload:\n  max_files: many\n"))
	_, stderr, code := run(t, []string{"EDGEWISE_METRICS_ENABLED=perhaps", "EDGEWISE_NO_SUCH=1"}, "config", "--config",
		file, "--set", "engine.max_queue=-1", "--set", "no.such=1")
	if code != 4 {
		t.Errorf("exit code %d, want 4", code)
	}
	contains(t, "standard error", stderr, "bad.yaml:3", "adress", "bad.yaml:7", "max_files", "http.max_connections", "log.level",
		"EDGEWISE_METRICS_ENABLED", "EDGEWISE_NO_SUCH", "engine.max_queue", "no.such")
}

func TestFlagsWinOverEnvironmentOverFileOverDefaults(t *testing.T) {
	t.Parallel()
	file := write(t, "good.yaml", []byte("log:\n  level: warn\n  format: json\nstore:\n  snapshots: 7\n"))
	environment := []string{"EDGEWISE_LOG_LEVEL=error", "EDGEWISE_STORE_SNAPSHOTS=8"}
	got := func(environment []string, args ...string) string {
		t.Helper()
		out, stderr, code := run(t, environment, append([]string{"--output", "json", "config"}, args...)...)
		var c struct {
			Log struct {
				Level  string `json:"level"`
				Format string `json:"format"`
			} `json:"log"`
			Store struct {
				Snapshots int `json:"snapshots"`
			} `json:"store"`
		}
		if err := json.Unmarshal([]byte(out), &c); err != nil || code != 0 {
			t.Fatalf("config: %v: exit code %d\n%s%s", err, code, out, stderr)
		}
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, test := range []struct {
		name string
		env  []string
		args []string
		want string
	}{
		{"defaults", nil, nil, `{"log":{"level":"info","format":"text"},"store":{"snapshots":24}}`},
		{"file", nil, []string{"--config", file}, `{"log":{"level":"warn","format":"json"},"store":{"snapshots":7}}`},
		{
			"file named by the environment",
			[]string{"EDGEWISE_CONFIG=" + file},
			nil,
			`{"log":{"level":"warn","format":"json"},"store":{"snapshots":7}}`,
		},
		{"environment", environment, []string{"--config", file}, `{"log":{"level":"error","format":"json"},"store":{"snapshots":8}}`},
		{
			"flags", environment,
			[]string{"--config", file, "--set", "log.level=debug"},
			`{"log":{"level":"debug","format":"json"},"store":{"snapshots":8}}`,
		},
	} {
		if c := got(test.env, test.args...); c != test.want {
			t.Errorf("%s: %s, want %s", test.name, c, test.want)
		}
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	out, _, _ := run(t, nil, "config", "--set", "engine.max_queue=77")
	reserve := fmt.Sprintf("  reserve_bytes: %v\n", config.Default().Store.ReserveBytes)
	contains(t, "config", out, "data_dir: "+here+"/data\n", "  max_queue: 77\n", reserve)
}

func TestDoctorFindsAndRepairsAFlippedByte(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	wantHealthy(t, dir)
	b := serveReady(t, dir)
	b.upload("cat", "", biased(1))
	b.upload("dog", "", biased(2))
	refuses(t, 4, []string{dir}, "doctor", "--set", "data_dir="+dir)
	m, err := b.client.Model(t.Context(), "cat")
	if err != nil {
		t.Fatal(err)
	}
	b.stop()
	flipByte(t, dir, m.Versions[0].Files[0].Digest)
	if _, stderr, code := run(t, nil, "doctor", "--set", "data_dir="+dir); code != 0 {
		t.Errorf("a look at names and sizes: exit code %d: %s", code, stderr)
	}
	out, stderr, code := run(t, nil, "doctor", "--verify", "--set", "data_dir="+dir)
	if code != 6 {
		t.Errorf("doctor --verify: exit code %d, want 6", code)
	}
	contains(t, "doctor --verify", out+stderr, `"cat" version 1`, "SHA-256", "doctor --repair")
	out, stderr, code = run(t, nil, "doctor", "--repair", "--set", "data_dir="+dir)
	if code != 0 {
		t.Errorf("doctor --repair: exit code %d: %s", code, stderr)
	}
	contains(t, "doctor --repair", out, `"cat" version 1`, "quarantine")
	if files(t, filepath.Join(dir, "quarantine")) < 2 { // the file and the reason
		t.Errorf("nothing was moved aside")
	}
	wantHealthy(t, dir)
	b = serveReady(t, dir)
	b.wantBias("dog", "1", 2)
	b.refuses(3, []string{"cat"}, "infer", "cat", "-i", "x=none.npy")
}

// flipByte changes one byte of a stored file wherever its content stands; names and sizes stay.
func flipByte(t *testing.T, dir string, digest edgewise.Digest) {
	t.Helper()
	flipped := 0
	err := filepath.WalkDir(filepath.Join(dir, "blobs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != string(digest) {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.Chmod(path, 0o644); err != nil {
			return err
		}
		data[len(data)/2] ^= 1
		flipped++
		f, err := os.OpenFile(path, os.O_WRONLY, 0) // not a new file: versions hold links to it
		if err != nil {
			return err
		}
		if _, err := f.Write(data); err != nil {
			return err
		}
		return f.Close()
	})
	if err != nil || flipped != 1 {
		t.Fatalf("%d files were changed: %v", flipped, err)
	}
}

func TestDoctorMakesNoDataFolder(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "misspelt")
	out, stderr, code := run(t, nil, "doctor", "--set", "data_dir="+missing)
	if code != 0 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	contains(t, "doctor", out, "none: "+missing+" does not exist", "data_dir")
	for _, flag := range []string{"--verify", "--repair"} {
		refuses(t, 3, []string{missing}, "doctor", flag, "--set", "data_dir="+missing)
	}
	if _, err := os.Stat(missing); err == nil {
		t.Errorf("%s was made", missing)
	}
}

func TestABoxWithoutTheRuntimeSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	const missing = "/nonexistent/libonnxruntime.so.1"
	b := serveReady(t, t.TempDir(), "--set", "onnx.library="+missing)
	if status, _ := b.send(http.MethodGet, "/v2/health/live", nil); status != http.StatusOK {
		t.Errorf("not live: %d", status)
	}
	contains(t, "log", b.output(), "no runtime for ONNX models", missing)
	status, text := b.send(http.MethodPost, "/api/v1/models/cat/versions", biased(1).Bytes(), "Content-Type", mimeFile)
	if status != http.StatusServiceUnavailable {
		t.Errorf("upload: %d, want 503", status)
	}
	contains(t, "upload", text, "is stored but was not made live", missing)
	status, text = b.send(http.MethodPost, "/v2/repository/models/cat/load", nil)
	if status != http.StatusServiceUnavailable {
		t.Errorf("load: %d, want 503", status)
	}
	contains(t, "load", text, missing)
	b.refuses(5, []string{missing}, "model", "promote", "cat:1")
	refuses(t, 5, []string{missing}, "doctor", "--set", "onnx.library="+missing, "--set", "data_dir="+t.TempDir())
}
