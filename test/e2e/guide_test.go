package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// TestCommandsOfTheRESTGuide runs every block of commands of the guide as it is typed there, in order.
func TestCommandsOfTheRESTGuide(t *testing.T) {
	b := serveReady(t, t.TempDir())
	row := onnxgen.Identity(edgewise.FP32, onnxgen.Dim{Size: 1}, onnxgen.Dim{Size: 4})
	for range 3 {
		b.upload("cat", "", row)
	}
	b.upload("faces", "", onnxgen.Identity(edgewise.Bytes, onnxgen.Dim{Size: 1}))
	folder := t.TempDir()
	if err := row.Save(folder); err != nil {
		t.Fatal(err)
	}
	if err := row.Save(filepath.Join(folder, "folder")); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"x.bin": strings.Repeat("\x00", 16), "photo.jpg": "a picture"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	blocks := shellBlocks(t, "../../docs/guides/rest.md")
	if len(blocks) < 8 {
		t.Fatalf("only %d blocks of commands were found", len(blocks))
	}
	for _, block := range blocks {
		cmd := exec.Command("bash", "-euxo", "pipefail", "-c", `curl() { command curl -sS --fail-with-body "$@"; }`+"\n"+block)
		cmd.Dir, cmd.Env = folder, append(os.Environ(), "B="+b.url)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	b.stop()
}

// shellBlocks returns the blocks of commands of a guide.
func shellBlocks(t *testing.T, path string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?ms)^ *```sh\n(.*?)^ *```$").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}
