package external

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/api/backend/conformance"
)

// TestTheReferenceKeepsEveryRuleInItsSandbox checks it as "edgewise backend test" does.
func TestTheReferenceKeepsEveryRuleInItsSandbox(t *testing.T) {
	model := t.TempDir()
	if err := os.Mkdir(filepath.Join(model, "1"), 0o700); err != nil {
		t.Fatal(err)
	}
	kept := 0
	err := manifest(t, "reference").Check(t.Context(), model, func([]byte) {}, func(r conformance.Result) {
		if kept++; r.Err != nil {
			t.Errorf("%s: %v", r.Name, r.Err)
		}
	})
	if err != nil || kept != len(conformance.Names()) {
		t.Errorf("%d rules, %v", kept, err)
	}
}

func TestAFaultyBackendIsToldWhichRuleItBreaks(t *testing.T) {
	var broken []string
	err := manifest(t, "never answers").Check(t.Context(), "", func([]byte) {}, func(r conformance.Result) {
		broken = append(broken, r.Name+": "+r.Err.Error())
	})
	if want := "start.version: READY came"; err != nil || len(broken) != 1 || broken[0] != want {
		t.Errorf("got %q, %v, want %q", broken, err, want)
	}
}

func TestABackendIsFoundWithItsProblem(t *testing.T) {
	parent := t.TempDir()
	for name, text := range map[string]string{
		"good":    "protocol: 1\ncommand: [/bin/true]\nfile: model.x\nmemory: 1GiB\n",
		"old":     "protocol: 7\ncommand: [/bin/true]\n",
		"missing": "protocol: 1\ncommand: [\"${backend}/program\"]\n",
		"there":   "address: unix:/run/none.sock\nload: true\noutput_memory: 1MiB\n",
		"both":    "command: [/bin/true]\naddress: unix:/run/x.sock\n",
		"far":     "address: http://10.0.0.1:80\n",
		"load":    "protocol: 1\ncommand: [/bin/true]\nload: true\n",
		"typo":    "protocol: 1\ncomand: [/bin/true]\n",
		"twice":   "protocol: 1\ncommand: [/bin/true]\nplatforms: [good]\n",
	} {
		folder := filepath.Join(parent, name)
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, ManifestFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(parent, "README"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	manifests, others := Discover([]string{parent, filepath.Join(parent, "nowhere")})
	var told []string
	for _, b := range New(Config{Manifests: manifests, Unusable: others}).List(t.Context()) {
		told = append(told, b.Name+" "+strings.ReplaceAll(b.Problem, parent+"/", ""))
	}
	all := strings.Join(told, "\n")
	for _, want := range []string{
		"good \n", "missing there is no program ", "protocol: want 1, got 7", "typo/backend.yaml:2: ",
		"there the server at unix:/run/none.sock: no answer", "both both/backend.yaml: address: a server has no other keys",
		`far far/backend.yaml: address "http://10.0.0.1:80": "10.0.0.1" is not this machine`,
		"load load/backend.yaml: token_file, load: they are keys of a server", `platform "good" is that of the backend in`,
	} {
		if !strings.Contains(all+"\n", want) {
			t.Errorf("%q is missing in\n%s", want, all)
		}
	}
}

func TestABackendSaysWhatItLacks(t *testing.T) {
	parent := t.TempDir()
	for name, script := range map[string]string{
		"all":     "exit 0",
		"lacks":   "echo one line; echo needs the package torch; exit 1",
		"silent":  "exit 3",
		"unasked": "echo it was asked; exit 1",
	} {
		folder := filepath.Join(parent, name)
		manifest := "protocol: 1\ncommand: [/bin/sh, \"${backend}/check.sh\"]\n"
		if name != "unasked" {
			manifest += "self_check: true\n"
		}
		err := os.Mkdir(folder, 0o700)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, ManifestFile), []byte(manifest), 0o600)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, "check.sh"), []byte("[ \"$1\" = --check ] || exit 9\n"+script), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	manifests, _ := Discover([]string{parent})
	got := map[string]string{}
	for _, b := range New(Config{Manifests: manifests}).Examine(t.Context()) {
		if got[b.Name] = b.Problem; b.Usable != (b.Problem == "") {
			t.Errorf("%+v", b)
		}
	}
	want := map[string]string{"all": "", "lacks": "needs the package torch", "silent": "exit status 3", "unasked": ""}
	if !maps.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
