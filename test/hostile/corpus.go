package hostile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise/test/wat"
)

// Prelude is what the modules of the corpus include: memory, a bump allocator whose pointer is a global, and the empty
// set-up.
const Prelude = `
(memory (export "memory") 2 64)
(global $heap (mut i32) (i32.const 4096))
(func $alloc (export "edgewise_alloc") (param $size i32) (param $align i32) (result i32) (local $p i32)
  (local.set $p (i32.and (i32.add (global.get $heap) (i32.const 63)) (i32.const -64)))
  (global.set $heap (i32.add (local.get $p) (local.get $size)))
  block $ok loop $grow
    (br_if $ok (i32.le_u (global.get $heap) (i32.mul (memory.size) (i32.const 65536))))
    (br_if $grow (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))
    (return (i32.const 0))
  end end
  local.get $p)
(func (export "edgewise_step_v1"))
`

// Module is one of the corpus: text with three comments in front, which say what it is, whether it is to be refused at
// "upload" or to fail at "run", and the exact error.
type Module struct {
	Name, File, Text string
	Head             string // the comment that says what it is
	When, Want       string
	Binary           []byte
}

// limit is the time after which the corpus is stopped, as its errors have it.
const limit = "it took more than 100ms"

// Stopped tells whether the module is to be stopped, since it would run for ever.
func (m *Module) Stopped() bool { return strings.HasSuffix(m.Want, limit) }

// Refused tells whether a box refuses it.
func (m *Module) Refused() bool { return m.When == "upload" }

// Read reads the corpus in a folder.
func Read(dir string) ([]Module, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.wat"))
	if err == nil && len(files) < 100 {
		err = fmt.Errorf("%s holds %d hostile modules", dir, len(files))
	}
	if err != nil {
		return nil, err
	}
	list := make([]Module, len(files))
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		lines := strings.SplitN(string(text), "\n", 4)
		if len(lines) < 4 {
			return nil, fmt.Errorf("%s does not begin with three comments", file)
		}
		m := Module{Name: strings.TrimSuffix(filepath.Base(file), ".wat"), File: file, Text: lines[3], Head: lines[0]}
		m.When, m.Want = strings.TrimPrefix(lines[1], ";; when: "), strings.TrimSpace(strings.TrimPrefix(lines[2], ";; want:"))
		if m.Binary, err = wat.Assemble(strings.Replace(lines[3], `(include "prelude")`, Prelude, 1)); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		list[i] = m
	}
	return list, nil
}

// self is the module that asks for a model of the name "hostile", which it must have itself.
const self = "infer-itself"

// model is the name under which a box has the module.
func (m *Module) model() string {
	if m.Name == self {
		return "hostile"
	}
	return m.Name
}

// met tells whether err is how a box meets the module, whose own limits are these.
func (m *Module) met(err error, setup, run time.Duration) bool {
	if err == nil {
		return false
	}
	of := run
	if m.Refused() {
		of = setup
	}
	late := "it took more than " + of.String()
	text := strings.Join(strings.Fields(err.Error()), " ")
	want := strings.Replace(strings.ReplaceAll(m.Want, `model "hostile"`, fmt.Sprintf("model %q", m.model())), limit, late, 1)
	return strings.Contains(text, want)
}

// wrong says how a module was met that was not met as it should be.
func (m *Module) wrong(err error) error {
	if err == nil {
		return fmt.Errorf("%s: there was no error: want %s", m.Name, m.Want)
	}
	return fmt.Errorf("%s: %w: want %s", m.Name, err, m.Want)
}
