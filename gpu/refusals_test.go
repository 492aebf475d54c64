package gpu_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// refusing are the files whose texts say why a GPU, or a model on one, is refused.
var refusing = []string{
	"find.go", "find_vulkan.go", "vulkan/vulkan.go", "vulkan/manifest.go", "../appliance/serving/probe.go",
	"provider/open.go", "provider/file.go", "provider/code.go", "cuda/driver.go",
	"onnx/accelerate.go", "onnx/accelerated.go",
	"onnx/providers.go", "onnx/plan.go", "../appliance/serving/hardware.go", "../appliance/serving/placement.go",
	"../appliance/serving/gpumemory.go", "../appliance/serving/resident.go", "../appliance/serving/throttle.go", "../appliance/runner/rest.go",
	"../appliance/serving/choice.go", "../appliance/serving/precision.go",
	"../appliance/measure/measure.go", "../appliance/measure/answers.go",
}

// said are texts of these files that refuse nothing: what the log tells, and what stands before a reason of another
// text.
var said = []string{
	"a model was loaded again by a request",
	"GPU found", "no GPU is used", "runtime found", "no runtime for ONNX models",
	"GPUs tell nothing of their load and temperature", "a model gave its memory up for another",
	"the device of a model was chosen by measurement", "the device that was chosen for a model cannot be used",
	"what was measured of a model was not written", "a model with a lower precision was compared with FP32", "its instance groups name one",
	"cannot open shared object file", "pictures are made into tensors on the CPU", "provider of a session", "CUDA driver ",
	", %d.%d and later", "edgewise: a process that looks for libraries",
}

// verbs are what is filled in.
var verbs = regexp.MustCompile(`%[a-zA-Z]`)

// texts lists the texts of a file that have at least three words.
func texts(t *testing.T, path string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	ast.Inspect(file, func(n ast.Node) bool {
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING || strings.HasPrefix(literal.Value, "`") {
			return true
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		if words := regexp.MustCompile(`[A-Za-z]{2,}`).FindAllString(verbs.ReplaceAllString(text, ""), -1); len(words) >= 3 &&
			strings.Contains(text, " ") {
			list = append(list, text)
		}
		return true
	})
	return list
}

// rows reads the first column of the document's table of refusals.
func rows(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile("../docs/gpu.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(content), "## What each refusal means")
	section, _, _ = strings.Cut(section, "\n## ")
	var list []string
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) == 4 && !strings.HasPrefix(line, "|---") && strings.TrimSpace(cells[1]) != "text" {
			if strings.TrimSpace(cells[2]) == "" {
				t.Errorf("%s: nothing is said of it", cells[1])
			}
			list = append(list, strings.TrimSpace(cells[1]))
		}
	}
	return list
}

// tells tells whether a row's words stand in a text, in order; "..." is anything.
func tells(row, text string) bool {
	for _, part := range strings.Split(row, "...") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return true
}

// TestEveryRefusalIsInTheDocument holds the texts of the code against the table of docs/gpu.md, in both directions.
func TestEveryRefusalIsInTheDocument(t *testing.T) {
	table := rows(t)
	used := map[string]bool{}
	for _, path := range refusing {
	next:
		for _, text := range texts(t, path) {
			for _, other := range said {
				if strings.HasPrefix(text, other) {
					continue next
				}
			}
			found := false
			for _, row := range table {
				if tells(row, text) {
					found, used[row] = true, true
				}
			}
			if !found {
				t.Errorf("%s: %q is not in docs/gpu.md", path, text)
			}
		}
	}
	for _, row := range table {
		if !used[row] {
			t.Errorf("docs/gpu.md explains %q, which nothing says", row)
		}
	}
}
