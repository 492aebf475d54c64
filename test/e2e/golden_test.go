package e2e

import (
	"regexp"
	"strings"
	"testing"
)

// TestGoldensFromTheCommandLine follows the goldens of a model through the life of its versions, over a restart.
func TestGoldensFromTheCommandLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := serveReady(t, dir)
	b.must("model", "push", "cat", save(t, biased(1)))
	x, y := write(t, "x.json", []byte("[[1, 2, 3, 4]]")), write(t, "y.json", []byte("[[2, 3, 4, 5]]"))
	contains(t, "add", b.must("golden", "add", "cat", "-i", x, "--name", "captured"), `model "cat": golden `, "is stored")
	contains(t, "add", b.must("golden", "add", "cat", "-i", x, "--expect", "y="+y, "--name", "given"), "is stored")
	b.refuses(2, []string{`--expect "z=`, "the outputs y"}, "golden", "add", "cat", "-i", x, "--expect", "z="+y)
	contains(t, "run", b.must("golden", "run", "cat:1"), `model "cat": version 1 passes 2 of 2 goldens`)

	b.refuses(4, []string{`model "cat" version 2 is stored but was not made live`, "fails 2 of 2 goldens", `"captured"`},
		"model", "push", "cat", save(t, biased(3)))
	b.wantBias("cat", "1", 1)
	out, _, code := run(t, nil, "--server", b.url, "golden", "diff", "cat:2")
	if code != 4 {
		t.Errorf("the exit code of diff is %d", code)
	}
	contains(t, "diff", out, "passes 0 of 2", "4 of 4 differ", "[0 0]: want 2, got 4, by 2", "given")
	b.refuses(4, []string{"goldens"}, "model", "promote", "cat:2")
	b.stop()

	b = serveReady(t, dir)
	contains(t, "policy", b.must("golden", "policy", "cat", "warn"), `model "cat": policy warn, 0 rules`)
	contains(t, "promote", b.must("model", "promote", "cat:2"), "points to version 2")
	b.must("golden", "policy", "cat", "require")
	contains(t, "rollback", b.must("model", "rollback", "cat"), "points to version 1")
	b.refuses(2, []string{"rules.json", "JSON"}, "golden", "policy", "cat", "warn", "--rules", write(t, "rules.json", []byte("{")))
	b.refuses(4, []string{"maybe"}, "golden", "policy", "cat", "maybe")

	list := b.must("golden", "list", "cat")
	contains(t, "list", list, "2 goldens of at most 200, policy require", "version 1", "the caller")
	id := regexp.MustCompile(`(?m)^([0-9a-f]{16}) +captured`).FindStringSubmatch(list)
	if id == nil {
		t.Fatalf("the list has no id:\n%s", list)
	}
	contains(t, "rm", b.must("golden", "rm", "cat", id[1]), "is deleted")
	b.refuses(3, []string{id[1]}, "golden", "rm", "cat", id[1])
	if list := b.must("golden", "list", "cat"); strings.Contains(list, "captured") {
		t.Errorf("the golden is still listed:\n%s", list)
	}
	b.stop()
	wantHealthy(t, dir)
}
