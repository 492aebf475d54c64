// Package arch holds the rules of the repository as tests: which package may import which, where C code may be, how
// long lines and functions are, which words are retired, and whether the documents agree with the tree.
package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/edgewise-ai/edgewise"

// parsed is one Go file of the project.
type parsed struct {
	path   string // relative to the root
	folder string // "." for the root
	test   bool
	made   bool // by a generator, which has a style of its own
	syntax *ast.File
}

func (f parsed) imports() []string {
	var list []string
	for _, spec := range f.syntax.Imports {
		list = append(list, strings.Trim(spec.Path.Value, `"`))
	}
	return list
}

// files returns every Go file of the project, which the first test that asks parses. Tests only read them.
func files(t *testing.T) (*token.FileSet, []parsed) {
	t.Helper()
	p, err := parseProject()
	if err != nil {
		t.Fatal(err)
	}
	if len(p.files) < 30 {
		t.Fatalf("only %d Go files found: the walk is broken", len(p.files))
	}
	return p.set, p.files
}

// project is every Go file, and the positions in them.
type project struct {
	set   *token.FileSet
	files []parsed
}

var parseProject = sync.OnceValues(func() (project, error) {
	p := project{set: token.NewFileSet()}
	root := "../.."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (path != root && strings.HasPrefix(d.Name(), ".") ||
			slices.Contains([]string{"node_modules", "testdata", "bin", "dist", "data"}, d.Name())) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		syntax, err := parser.ParseFile(p.set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		p.files = append(p.files, parsed{
			path: relative, folder: filepath.Dir(relative), test: strings.HasSuffix(path, "_test.go"),
			made: ast.IsGenerated(syntax), syntax: syntax,
		})
		return err
	})
	return p, err
})

// layer is a set of folders and what of the project they may import beside the root package and their own subfolders.
// The table in docs/architecture.md repeats it.
type layer struct {
	name    string
	folders []string // "x/..." stands for x and everything below
	may     []string
	reason  string
}

var parts = []string{
	"wasm/...", "ensemble/...", "store/...", "webui/...", "appliance/manager", "appliance/sched/...", "appliance/cache",
	"appliance/sharedmemory", "appliance/observe", "appliance/apistatus", "appliance/listen",
	"appliance/blocks", "appliance/update", "appliance/access", "appliance/idle",
}

var adminParts = []string{
	"appliance/auth", "appliance/certificate", "appliance/activity", "appliance/uploads",
	"appliance/proposal",
}

var services = []string{
	"appliance/capacity",
	"appliance/catalog",
	"appliance/drivers",
	"appliance/editor",
	"appliance/fleet",
	"appliance/golden",
	"appliance/importer",
	"appliance/monitor",
	"appliance/recordings",
	"appliance/registry",
	"appliance/remote",
	"appliance/repository",
	"appliance/rollout",
	"appliance/roofline",
	"appliance/safestart",
	"appliance/serving",
	"appliance/tune/...",
	"appliance/updates",
}

// foundations are packages that every layer may import, as it may the root.
var foundations = []string{"aligned", "host", "ordering", "pattern", "picture", "scalar"}

var layers = []layer{
	{"types", []string{"."}, nil, "the shared types import nothing, so that every package can use them"},
	{"foundations", foundations, nil, "what every package can use imports nothing"},
	{"syntax", []string{"appliance/document", "appliance/tarfile"}, nil, "syntax is independent of models"},
	{
		"readers",
		[]string{"appliance/config", "appliance/modelconfig"},
		[]string{"appliance/document"},
		"both read strict documents",
	},
	{
		"sequences",
		[]string{"appliance/sched/sequence"},
		[]string{"appliance/sched", "appliance/sched/cores", "appliance/sched/trial"},
		"a sequence batcher stands in front of a scheduler, which knows nothing of sequences",
	},
	{
		"waits",
		[]string{"appliance/sched/waits"},
		[]string{"appliance/sched/cores"},
		"what requests wait for knows who held the cores, and nothing of schedulers",
	},
	{"disk", []string{"store/disk"}, nil, "files on a disk know nothing of what is stored in them"},
	{"databases", []string{"store/database"}, []string{"store/disk"}, "a file of bbolt knows nothing of what is stored in it"},
	{
		"store",
		[]string{"store", "store/documents", "store/files"},
		[]string{"store/disk", "store/database"},
		"the store and the documents of the box are parts with their disk and their databases in packages of their own",
	},
	{"parts", parts, nil, "parts do not import parts: package appliance connects them through types of the root"},
	{
		"admin parts", adminParts,
		[]string{"api/admin", "appliance/tarfile"},
		"parts behind the administration API use its bodies, so that no package translates them",
	},
	{
		"children", []string{"appliance/child", "appliance/compiled"}, nil,
		"child processes, and the folders that they write in, know nothing of what runs in them",
	},
	{
		"processes",
		[]string{"appliance/runner", "appliance/external", "appliance/external/remote"},
		[]string{"appliance/child", "appliance/document", "api/..."},
		"backends in processes of their own share how these are started, confined and ended",
	},
	{
		"warm-ups", []string{"appliance/warmup"},
		[]string{"appliance/modelconfig", "appliance/sched", "appliance/sched/trial", "store"},
		"requests that a configuration declares are made of its words and of files of the version",
	},
	{
		"load", []string{"appliance/load"}, []string{"api/admin", "appliance/sched/trial"},
		"a load is sent of requests that are made up, or known from elsewhere",
	},
	{"tap", []string{"appliance/tap"}, []string{"appliance/blocks"}, "copies of requests are in blocks of memory"},
	{
		"examples",
		[]string{"appliance/compare", "appliance/example"},
		[]string{"api/..."},
		"requests with their answers, and how answers differ, depend on the protocol alone",
	},
	{
		"measurement",
		[]string{"appliance/measure"},
		[]string{"api/admin", "appliance/compare", "appliance/sched/trial"},
		"trying ways of running a version knows how answers differ, and nothing of devices and loads",
	},
	{
		"history",
		[]string{"appliance/history", "appliance/alerts"},
		[]string{"api/admin", "appliance/activity"},
		"what is kept for a month, and what alerts look at, are readings of the counters with their histogram",
	},
	{
		"helper",
		[]string{"appliance/update/helper", "appliance/update/driver"},
		[]string{"appliance/update", "appliance/update/driver", "appliance/listen"},
		"the privileged helper knows versions and signatures, and nothing of the appliance that calls it",
	},
	{
		"native libraries",
		[]string{"gpu/cuda", "gpu/vulkan", "gpu/drm", "gpu/nvml", "gpu/jetson", "gpu/provider", "gpu/onnx/ort", "gpu/onnx/onnxfile"},
		[]string{"gpu/onnx/onnxfile"},
		"each wraps one library or format; ONNX Runtime has the element types of ONNX files",
	},
	{"gpu", []string{"gpu/..."}, []string{"gpu/..."}, "GPU packages know the wrappers below gpu/ and nothing else"},
	{"api", []string{"api/..."}, []string{"api/..."}, "bodies of the API know nothing of the appliance"},
	{
		"protocol",
		[]string{"appliance/frontend"},
		[]string{"appliance/blocks", "api/..."},
		"the common part of the frontends knows neither HTTP nor gRPC",
	},
	{
		"frontends",
		[]string{"appliance/httpapi", "appliance/grpcapi", "appliance/metricspage"},
		[]string{"appliance/apistatus", "appliance/blocks", "appliance/listen", "appliance/frontend", "api/..."},
		"a frontend translates requests; it does not decide",
	},
	{
		"REST handlers",
		[]string{"appliance/httpapi/inference", "appliance/httpapi/compatible", "appliance/httpapi/administration"},
		[]string{
			"appliance/httpapi", "appliance/frontend", "appliance/blocks", "appliance/tarfile", "api/...",
			"appliance/alerts", "appliance/auth", "appliance/activity", "appliance/history", "appliance/uploads",
			"appliance/example",
		},
		"handlers use the transport and the parts that have no other caller, and know nothing of each other",
	},
	{
		"loopback",
		[]string{"appliance/loopback"},
		[]string{"appliance/httpapi", "appliance/httpapi/inference", "appliance/frontend", "api/..."},
		"the box sends requests to itself through the REST frontend, with the client of the project",
	},
	{
		"services", services,
		slices.Concat(parts, adminParts, []string{
			"api/...", "gpu/...", "sdk", "appliance/config", "appliance/document", "appliance/modelconfig",
			"appliance/update/driver",
			"appliance/update/helper", "appliance/compare", "appliance/example", "appliance/tap", "appliance/child", "appliance/compiled",
			"appliance/runner", "appliance/external", "appliance/measure", "appliance/load", "appliance/loopback", "appliance/warmup",
		}),
		"services import parts, and use each other through interfaces that they declare: package appliance connects them",
	},
	{"appliance", []string{"appliance"}, []string{"..."}, "package appliance connects all others"},
	{
		"fetch",
		[]string{"fetch/..."},
		[]string{"api/fetch", "fetch/..."},
		"the program that fetches is a module of its own, which knows the protocol and nothing of the appliance",
	},
	{"sdk", []string{"sdk/..."}, []string{"sdk/..."}, "guests know the ABI and nothing of the appliance"},
	{
		"step command",
		[]string{"cmd/edgewise/step"},
		[]string{"wasm/...", "sdk", "appliance/modelconfig", "api/kserve", "cmd/edgewise/tensorfile"},
		"the command runs steps as the appliance does, without the appliance",
	},
	{
		"commands",
		[]string{"cmd/..."},
		[]string{
			"appliance", "appliance/access", "appliance/config", "appliance/serving", "appliance/update/...", "appliance/compare",
			"appliance/example", "appliance/fleet", "appliance/tarfile",
			"wasm/...", "gpu", "api/...", "sdk/go", "cmd/...",
		},
		"commands start the appliance, or call it as any client does",
	},
	{"tests", []string{"test/...", "configs/..."}, []string{"..."}, "tests may import everything"},
}

func matches(pattern, folder string) bool {
	if pattern == "..." {
		return true
	}
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return folder == base || strings.HasPrefix(folder, base+"/")
	}
	return folder == pattern
}

func matchesAny(patterns []string, folder string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, folder) })
}

func TestImportsPointOneWay(t *testing.T) {
	_, all := files(t)
	for _, f := range all {
		i := slices.IndexFunc(layers, func(l layer) bool { return matchesAny(l.folders, f.folder) })
		if i < 0 {
			t.Errorf("%s: folder %s belongs to no layer: add it to the table in test/arch", f.path, f.folder)
			continue
		}
		for _, imported := range f.imports() {
			folder, ours := strings.CutPrefix(imported, module)
			folder = strings.TrimPrefix(folder, "/")
			if !ours || folder == "" || folder == f.folder || strings.HasPrefix(folder, f.folder+"/") {
				continue
			}
			if f.test && matches("test/...", folder) || matchesAny(foundations, folder) {
				continue
			}
			if !matchesAny(layers[i].may, folder) {
				t.Errorf("%s imports %s: %s", f.path, folder, layers[i].reason)
			}
		}
	}
}

// heavy names the one folder that may import a heavy library, so that it can be replaced there.
var heavy = map[string][]string{
	"github.com/gofiber/fiber":     {"appliance/httpapi/..."},
	"github.com/valyala/fasthttp":  {"appliance/httpapi"},
	"google.golang.org/grpc":       {"appliance/grpcapi", "api/..."},
	"github.com/bufbuild":          {"api/inference/generate"},
	"github.com/tetratelabs":       {"wasm/..."},
	"go.etcd.io/bbolt":             {"store", "store/database", "store/documents"},
	"github.com/yalue":             {"gpu/..."},
	"github.com/ebitengine/purego": {"gpu/..."},
	"github.com/prometheus":        {"appliance/observe"},
	"go.opentelemetry.io":          {"appliance/observe"},
	"github.com/spf13/cobra":       {"cmd/..."},
	"go.yaml.in/yaml":              {"appliance/document"},
	"golang.org/x/image":           {"cmd/...", "configs/...", "wasm/kernel"},
}

func TestHeavyLibrariesStayInTheirPackage(t *testing.T) {
	_, all := files(t)
	for _, f := range all {
		if f.test || matches("test/...", f.folder) {
			continue
		}
		for _, imported := range f.imports() {
			for library, folders := range heavy {
				if strings.HasPrefix(imported, library) && !matchesAny(folders, f.folder) {
					t.Errorf("%s imports %s, which belongs to %v", f.path, imported, folders)
				}
			}
		}
	}
}

func TestCodeInCStaysBelowGPU(t *testing.T) {
	_, all := files(t)
	for _, f := range all {
		if slices.Contains(f.imports(), "C") && !matches("gpu/...", f.folder) {
			t.Errorf("%s uses cgo: C code belongs below gpu/", f.path)
		}
	}
}

// TestOnlyBackendsNameTheirFormats holds that other packages ask an edgewise.Formats for platforms and file names.
func TestOnlyBackendsNameTheirFormats(t *testing.T) {
	names := []string{`"onnxruntime_onnx"`, `"onnxruntime"`, `"model.onnx"`, `"model.wasm"`, `".onnx"`, `".wasm"`}
	set, all := files(t)
	for _, f := range all {
		backend := matchesAny([]string{"gpu/...", "wasm/...", "test/...", "sdk/...", "configs/..."}, f.folder)
		if f.test || backend {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && slices.Contains(names, text.Value) {
				t.Errorf("%v: %s is known to its backend's Formats alone", set.Position(text.Pos()), text.Value)
			}
			return true
		})
	}
}

// TestEnvironmentIsReadInOnePlace keeps the environment where its precedence is documented. The program hands it over.
func TestEnvironmentIsReadInOnePlace(t *testing.T) {
	set, all := files(t)
	for _, f := range all {
		// the clients of stores read their variables themselves, and appliance/config says which of them they are given
		if f.test || matchesAny([]string{"test/...", "fetch/..."}, f.folder) || f.path == "cmd/edgewise/main.go" {
			continue
		}
		for n := range ast.Preorder(f.syntax) {
			call, ok := n.(*ast.SelectorExpr)
			if !ok {
				continue
			}
			if pkg, ok := call.X.(*ast.Ident); ok && pkg.Name == "os" &&
				slices.Contains([]string{"Getenv", "LookupEnv", "Environ"}, call.Sel.Name) {
				t.Errorf("%v: os.%s: only appliance/config interprets the environment, and cmd/edgewise/main.go hands it over",
					set.Position(call.Pos()), call.Sel.Name)
			}
		}
	}
}

// TestPackagesWithoutTheRaceDetectorStartNoGoroutine reads in the Makefile which packages "make test" tests without it.
// Those below test drive other processes, which "make test" builds without it.
func TestPackagesWithoutTheRaceDetectorStartNoGoroutine(t *testing.T) {
	_, list, found := strings.Cut(read(t, "Makefile"), "\nPLAIN := ")
	list, _, _ = strings.Cut(strings.ReplaceAll(list, "\\\n", ""), "\n")
	plain := strings.Fields(list)
	if !found || len(plain) < 10 {
		t.Fatalf("the Makefile tests %v without the race detector", plain)
	}
	set, all := files(t)
	for _, name := range plain {
		folder := strings.TrimPrefix(name, "./")
		if !slices.ContainsFunc(all, func(f parsed) bool { return f.folder == folder }) {
			t.Errorf("the Makefile names %s, which has no Go file", name)
		}
		for _, f := range all {
			if f.folder != folder || matches("test/...", folder) {
				continue
			}
			for _, library := range f.imports() {
				if library == "sync" || library == "sync/atomic" {
					t.Errorf("%s imports %s: the Makefile has %s tested without the race detector", f.path, library, name)
				}
			}
			for n := range ast.Preorder(f.syntax) {
				if start, ok := n.(*ast.GoStmt); ok {
					t.Errorf("%v: a goroutine: the Makefile has %s tested without the race detector", set.Position(start.Pos()), name)
				}
			}
		}
	}
}

func TestNoInitFunctions(t *testing.T) {
	_, all := files(t)
	for _, f := range all {
		if f.made {
			continue
		}
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: init() hides when things happen: make it in build.go and pass it", f.path)
			}
		}
	}
}

func TestEveryPackageHasOneComment(t *testing.T) {
	_, all := files(t)
	comments := map[string][]string{}
	for _, f := range all {
		if f.test {
			continue
		}
		comments[f.folder] = append(comments[f.folder], "")
		if f.syntax.Doc != nil {
			comments[f.folder] = append(comments[f.folder], f.path)
		}
	}
	for folder, list := range comments {
		with := slices.DeleteFunc(list, func(s string) bool { return s == "" })
		if len(with) != 1 {
			t.Errorf("folder %s has %d package comments %v, want one", folder, len(with), with)
		}
	}
}

// TestPackageVariablesDoNotChange finds assignments to package variables of the same package.
func TestPackageVariablesDoNotChange(t *testing.T) {
	set, all := files(t)
	variables := map[string]map[string]bool{}
	for _, f := range all {
		if f.test || f.made {
			continue
		}
		for _, d := range f.syntax.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.VAR {
				continue
			}
			for _, spec := range decl.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					if variables[f.folder] == nil {
						variables[f.folder] = map[string]bool{}
					}
					variables[f.folder][name.Name] = true
				}
			}
		}
	}
	for _, f := range all {
		for _, assigned := range assignments(f.syntax) {
			if name, local := assigned.name, assigned.local; name != "_" && variables[f.folder][name] && !local {
				t.Errorf("%v: package variable %s is assigned to: pass it instead", set.Position(assigned.at), name)
			}
		}
	}
}

type assignment struct {
	name  string
	local bool
	at    token.Pos
}

// assignments lists plain assignments to identifiers; local tells that the enclosing function declares the name.
func assignments(file *ast.File) []assignment {
	var list []assignment
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		locals := map[string]bool{}
		for n := range ast.Preorder(fn) {
			switch n := n.(type) {
			case *ast.Field:
				for _, name := range n.Names {
					locals[name.Name] = true
				}
			case *ast.ValueSpec:
				for _, name := range n.Names {
					locals[name.Name] = true
				}
			case *ast.RangeStmt:
				for _, e := range []ast.Expr{n.Key, n.Value} {
					if id, ok := e.(*ast.Ident); ok {
						locals[id.Name] = true
					}
				}
			case *ast.AssignStmt:
				for _, left := range n.Lhs {
					id, ok := left.(*ast.Ident)
					if !ok {
						continue
					}
					if n.Tok == token.DEFINE {
						locals[id.Name] = true
					}
					list = append(list, assignment{id.Name, locals[id.Name], id.Pos()})
				}
			}
		}
	}
	return list
}

func TestEveryExportedNameIsDocumented(t *testing.T) {
	set, all := files(t)
	for _, f := range all {
		if f.test || f.made || f.syntax.Name.Name == "main" {
			continue
		}
		for _, d := range f.syntax.Decls {
			for _, name := range undocumented(d) {
				t.Errorf("%v: exported %s has no doc comment", set.Position(d.Pos()), name)
			}
		}
	}
}

// undocumented lists the exported names that a declaration leaves without a comment. In a group one comment above the
// group, or one beside the name, is enough.
func undocumented(d ast.Decl) []string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && (d.Recv == nil || receiver(d).IsExported()) {
			return []string{d.Name.Name}
		}
	case *ast.GenDecl:
		if d.Doc != nil {
			return nil
		}
		var names []string
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Doc == nil && s.Name.IsExported() {
					names = append(names, s.Name.Name)
				}
			case *ast.ValueSpec:
				if s.Doc == nil && s.Comment == nil && s.Names[0].IsExported() {
					names = append(names, s.Names[0].Name)
				}
			}
		}
		return names
	}
	return nil
}

func receiver(d *ast.FuncDecl) *ast.Ident {
	expr := d.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e
		}
	}
}

func TestNoCommittedPathOfAMachine(t *testing.T) {
	_, all := files(t)
	for _, f := range all {
		source, err := os.ReadFile(filepath.Join("../..", f.path))
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"/work" + "/", "/root" + "/", "registry.npmjs" + ".org", "proxy.golang" + ".org"} {
			if strings.Contains(string(source), word) {
				t.Errorf("%s contains %q", f.path, word)
			}
		}
	}
}

// Bounds of the lines of a package that people write, without tests.
const (
	largestPackage   = 4500
	largestAppliance = 2500 // package appliance connects the others and does nothing else
)

// crowded are packages that are still above the bound. The list only shrinks.
var crowded = []string{}

// TestPackagesAreSmall holds that one person can have a package in mind.
func TestPackagesAreSmall(t *testing.T) {
	set, all := files(t)
	lines := map[string]int{}
	for _, f := range all {
		if !f.test && !f.made {
			lines[f.folder] += set.File(f.syntax.Pos()).LineCount()
		}
	}
	for folder, n := range lines {
		bound := largestPackage
		if folder == "appliance" {
			bound = largestAppliance
		}
		if over := n > bound; over != slices.Contains(crowded, folder) {
			t.Errorf("%s has %d lines without tests, at most %d are allowed: exception %v", folder, n, bound, !over)
		}
	}
}
