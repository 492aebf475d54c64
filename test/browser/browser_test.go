package browser

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/test/real"
)

var (
	megabytes = flag.String("browser.upload", "1024", "MiB of the upload that is cut off")
	lines     = flag.String("browser.lines", "8000", "lines of the log that is followed; 100000 for the long run")
	minutes   = flag.Int("browser.soak", 0, "minutes for which a tab stays open while its memory is watched; 0: not at all")
	shots     = flag.String("browser.shots", "", "a folder for the picture of a scenario that fails")
	pictures  = flag.String("browser.pictures", "", "a folder for pictures of every page, in both colours, on a phone and with large text")
)

// limit is generous: on a busy machine the scenario with both languages takes ten times as long as on a quiet one.
const limit = 20 * time.Minute

// node returns the command for a script of the page's.
func node(t *testing.T, arguments ...string) *exec.Cmd {
	t.Helper()
	page := filepath.Join(real.Root(t), "webui")
	if _, err := os.Stat(filepath.Join(page, "node_modules")); err != nil {
		t.Fatal(`webui/node_modules is missing: run "make webui" first`)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit+time.Duration(*minutes)*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "node", arguments...)
	cmd.Dir = page
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(os.Environ(), "UPLOAD_MB="+*megabytes, "LINES="+*lines, "MINUTES="+strconv.Itoa(*minutes),
		"SHOTS="+*shots, "PICTURES="+*pictures, "NO_COLOR=1")
	return cmd
}

// abreast is how many scenarios run at the same time: each waits half of its time for what it looks at.
const abreast = 3

// longest are the scenarios that take longest. They begin first, so that none of them is left alone at the end.
var longest = []string{
	"language", "uploads", "tables", "sweep", "history", "network", "configuration", "drops", "editor", "health",
	"live", "step", "setup", "tune",
}

func rank(path string) int {
	if i := slices.Index(longest, scenario(path)); i >= 0 {
		return i
	}
	return len(longest)
}

// scenario is the name of the scenario in a file.
func scenario(path string) string { return strings.TrimSuffix(filepath.Base(path), ".scenario.mjs") }

func TestScenarios(t *testing.T) {
	real.Program(t)
	real.Models(t)
	real.Pipelines(t)
	found, err := filepath.Glob(filepath.Join(real.Root(t), "webui", "test", "*.scenario.mjs"))
	if err != nil || len(found) < 18 {
		t.Fatalf("%d scenarios found (%v)", len(found), err)
	}
	if *minutes > 0 {
		found = append(found, "soak.long.scenario.mjs")
	}
	slices.SortStableFunc(found, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	queue := make(chan string, len(found))
	for _, path := range found {
		queue <- scenario(path)
	}
	close(queue)
	var work sync.WaitGroup
	for range abreast {
		work.Go(func() {
			for name := range queue {
				t.Run(name, func(t *testing.T) {
					out, err := node(t, "test/run.mjs", name).CombinedOutput()
					if err != nil {
						t.Fatalf("%v\n%s", err, out)
					}
					t.Logf("%s", out)
				})
			}
		})
	}
	work.Wait()
}

func TestUnitsOfThePage(t *testing.T) {
	if out, err := node(t, "node_modules/vitest/vitest.mjs", "run").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestThePageIsTypedAndAccessible(t *testing.T) {
	if out, err := node(t, "node_modules/svelte-check/bin/svelte-check", "--tsconfig", "./tsconfig.json",
		"--fail-on-warnings").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestTypesAreThoseOfTheDocument(t *testing.T) {
	made := filepath.Join(t.TempDir(), "schema.d.ts")
	if out, err := node(t, "node_modules/openapi-typescript/bin/cli.js", "../api/openapi.yaml",
		"--default-non-nullable=false", "-o", made).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want, err := os.ReadFile(made)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(real.Root(t), "webui", "src", "api", "schema.d.ts"))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("webui/src/api/schema.d.ts is not what api/openapi.yaml says (%v): run \"npm run types\" in webui", err)
	}
}

func TestTheBuildKeepsToItsBudget(t *testing.T) {
	const (
		kB       = 1 << 10
		route    = 110 * kB // any chunk that a route loads, but for the compiler
		compiler = 2200 * kB
		all      = 720 * kB // without the compiler
	)
	dist := filepath.Join(real.Root(t), "webui", "dist")
	var total int64
	err := filepath.WalkDir(dist, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".br") {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		most := int64(route)
		if strings.Contains(path, "sandbox") {
			most = compiler
		}
		if info.Size() > most {
			t.Errorf("%s takes %d bytes, more than %d", d.Name(), info.Size(), most)
		}
		if most != compiler && !strings.HasPrefix(d.Name(), "licences") {
			total += info.Size()
		}
		return nil
	})
	if err != nil || total == 0 {
		t.Fatalf("%d bytes of the page found (%v): run \"make webui\" first", total, err)
	}
	if total > all {
		t.Errorf("the page takes %d bytes, more than %d", total, all)
	}
}
