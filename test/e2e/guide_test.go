package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

// TestCommandsOfTheGuides types the commands of README.md and of the guides as they stand there, in order, and compares the
// output that they show. "sh" and "console" blocks are run; commands that need a person, a network or another machine
// stand in "bash" blocks.
func TestCommandsOfTheGuides(t *testing.T) {
	t.Parallel()
	boxes := []struct {
		name   string
		start  func(t *testing.T, folder string) *box
		guides []string
	}{
		{"without accounts", serveGenerated, []string{
			"docs/guides/migrating.md", "docs/guides/rollout.md", "docs/guides/rest.md", "docs/guides/model-configuration.md",
		}},
		{"of make run", serveDemo, []string{
			"README.md", "docs/guides/first-five-minutes.md", "docs/guides/accounts.md", "docs/guides/perf.md",
			"docs/guides/sequences.md", "docs/guides/python-models.md", "docs/guides/ensembles.md", "docs/guides/admin-api.md",
			"docs/guides/capacity.md",
		}},
	}
	run := map[string]bool{}
	for _, kind := range boxes {
		for _, name := range kind.guides {
			run[name] = true
		}
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			b := kind.start(t, folder)
			for _, name := range kind.guides {
				t.Run(filepath.Base(name), func(t *testing.T) { typeCommands(t, b, folder, name) })
			}
			b.stop()
		})
	}
	for _, name := range guides(t) {
		commands := commandsOf(t, name)
		if (len(commands) > 0) != run[name] {
			t.Errorf("%s has %d commands to run; is it in the table: %v", name, len(commands), run[name])
		}
		for _, c := range commands {
			if strings.Contains(c.text, "| head") {
				t.Errorf("%s: head ends before it has read all, and fails the command before it: %s", name, c.text)
			}
		}
	}
}

// guides returns README.md and the guides as paths from the root of the checkout.
func guides(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(real.Root(t), "docs", "guides", "*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no guides were found: %v", err)
	}
	names := []string{"README.md"}
	for _, file := range files {
		names = append(names, "docs/guides/"+filepath.Base(file))
	}
	return names
}

// serveGenerated starts a box without accounts, with generated models and the files that the guides send.
func serveGenerated(t *testing.T, folder string) *box {
	t.Helper()
	b := serveReady(t, filepath.Join(folder, "data"))
	row := onnxgen.Identity(edgewise.FP32, onnxgen.Dim{Size: 1}, onnxgen.Dim{Size: 4})
	for range 3 {
		b.upload("cat", "", row)
	}
	b.upload("faces", "", onnxgen.Identity(edgewise.Bytes, onnxgen.Dim{Size: 1}))
	for _, to := range []string{folder, filepath.Join(folder, "folder")} {
		if err := row.Save(to); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range map[string]string{"x.bin": strings.Repeat("\x00", 16), "photo.jpg": "a picture"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// serveDemo starts the box of "make run" in a folder that looks like a checkout, and claims it for the user anna.
func serveDemo(t *testing.T, folder string) *box {
	t.Helper()
	for _, name := range []string{"README.md", "configs", "dist"} {
		if err := os.Symlink(filepath.Join(real.Root(t), name), filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	b := serveAs(t, []string{"HOME=" + folder}, []string{
		"--config", filepath.Join(real.Root(t), "configs", "demo", "appliance.yaml"),
		"--set", "data_dir=" + filepath.Join(folder, "data", "demo"),
		"--set", "http.address=127.0.0.1:0", "--set", "grpc.address=127.0.0.1:0", "--set", "metrics.address=127.0.0.1:0",
		"--import", real.Models(t), "--import", real.Pipelines(t), "--hint", "demo",
	})
	b.awaitReady()
	code := regexp.MustCompile(`Claim code: +(\S+)`).FindStringSubmatch(b.output())
	if code == nil {
		t.Fatalf("the box printed no claim code:\n%s", b.output())
	}
	body, err := json.Marshal(map[string]string{"code": code[1], "user": "anna", "password": "correct staple"})
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Post(b.url+"/api/v1/setup/claim", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("claiming the box: %s", res.Status)
	}
	return b
}

// guideCommand is one command, or a block of commands, with the output that the guide shows.
type guideCommand struct {
	text   string
	output string // "" when the guide shows none
	varies bool   // the output's numbers differ from run to run, and further lines may stand between those shown
}

// fails reports whether the guide shows an error of the command line.
func (c guideCommand) fails() bool { return strings.HasPrefix(c.output, "edgewise: ") }

// commandsOf returns the commands of a guide: each block of "sh", and each command behind "$ " in blocks of "console".
func commandsOf(t *testing.T, name string) (commands []guideCommand) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(real.Root(t), name))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?ms)^ *```(sh|console|console varies)\n(.*?)^ *```$")
	for _, m := range block.FindAllStringSubmatch(string(text), -1) {
		if m[1] == "sh" {
			commands = append(commands, guideCommand{text: m[2]})
			continue
		}
		for i, part := range strings.Split("\n"+m[2], "\n$ ") {
			if i == 0 {
				continue
			}
			command, output, _ := strings.Cut(strings.ReplaceAll(part, "\\\n", " "), "\n")
			commands = append(commands, guideCommand{command, strings.TrimSpace(output), m[1] != "console"})
		}
	}
	return commands
}

// guidePrelude makes the commands of a guide fail where curl is answered with an error, and reach the box of the test. In place
// of "make run" it prints what that box has printed.
const guidePrelude = `set -euo pipefail
curl() { command curl -sS --fail-with-body "$@"; }
edgewise() { command "$PROGRAM" --server "$B" "$@"; }
bin/edgewise() { edgewise "$@"; }
make() { cat "$PRINTED/run"; }
`

// typeCommands runs the commands of a guide in one shell, until one of them fails, and compares what they print.
func typeCommands(t *testing.T, b *box, folder, name string) {
	t.Helper()
	commands, printed := commandsOf(t, name), t.TempDir()
	script := guidePrelude
	for i, c := range commands {
		script += c.script(strings.ReplaceAll(c.text, "127.0.0.1:8000", b.address), i)
	}
	if err := os.WriteFile(filepath.Join(printed, "run"), []byte(b.output()), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir = folder
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + folder, "B=" + b.url, "PROGRAM=" + real.Program(t), "PRINTED=" + printed,
	}
	said, failed := cmd.CombinedOutput()
	usual := strings.NewReplacer("--server "+b.url+" ", "", b.address, "127.0.0.1:8000", b.grpc, "127.0.0.1:8001",
		cmp.Or(b.metrics, b.address), "127.0.0.1:8002")
	last := ""
	for i, c := range commands {
		output, err := os.ReadFile(filepath.Join(printed, strconv.Itoa(i)))
		if err != nil {
			break // the command before this one ended the shell
		}
		last = fmt.Sprintf("%s\n-- prints\n%s", c.text, usual.Replace(string(output)))
		if !c.pattern().MatchString(usual.Replace(string(output))) {
			t.Errorf("%s\n-- the guide shows\n%s", last, c.output)
		}
	}
	if failed != nil {
		t.Errorf("%v %s: the last command was\n%s", failed, said, last)
	}
}

// script is the n-th command of a script. Its output goes into a file of that name.
func (c guideCommand) script(text string, n int) string {
	run := fmt.Sprintf("{\n%s\n} >\"$PRINTED/%d\" 2>&1", text, n)
	if c.fails() {
		return "if " + run + "; then exit 1; fi\n"
	}
	return run + "\n"
}

// pattern matches the output that the guide shows. "..." stands for anything within a line, or for any lines on a line of
// its own. In output that varies, a word with a digit or without a letter stands for any word.
func (c guideCommand) pattern() *regexp.Regexp {
	if c.output == "" {
		return regexp.MustCompile("")
	}
	between, end := `\s*\n`, `\s*$`
	if c.varies {
		between, end = `\s*\n(?:.*\n)*?`, ``
	}
	var lines []string
	for line := range strings.Lines(c.output) {
		switch line = strings.TrimSpace(line); {
		case line == "":
		case line == "...":
			lines = append(lines, `(?:.*\n)*.*`)
		case c.varies:
			lines = append(lines, varyingLine(line))
		default:
			lines = append(lines, ` *`+strings.ReplaceAll(regexp.QuoteMeta(line), `\.\.\.`, `.*`))
		}
	}
	return regexp.MustCompile(`^\s*` + strings.Join(lines, between) + end)
}

// varyingLine matches a line whose words with a digit, or without a letter, may be any word.
func varyingLine(line string) string {
	words := strings.Fields(line)
	for i, word := range words {
		switch {
		case word == "...":
			words[i] = `.*`
		case strings.ContainsAny(word, "0123456789") || !regexp.MustCompile(`\pL`).MatchString(word):
			words[i] = `\S+`
		default:
			words[i] = strings.ReplaceAll(regexp.QuoteMeta(word), `\.\.\.`, `\S*`)
		}
	}
	return ` *` + strings.Join(words, ` +`)
}
