package step

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/tensorfile"
)

// CasesFolder is the folder of a step that holds its cases.
const CasesFolder = "golden"

// maxCaseBytes bounds the file of a case. Larger tensors are named in "files".
const maxCaseBytes = 64 << 20

// Case is one request to a step and what must come of it. The file of a case is a JSON document:
//
//	{
//	  "description": "what the case shows",
//	  "request": {"parameters": {...}, "inputs": [{"name", "datatype", "shape", "data"}]},   as POST .../infer takes it
//	  "files": {"image": "cat.jpg"},           inputs by name, read from files beside the case as "edgewise infer -i" does
//	  "models": {"other": {"response": {...}}, "echo": {"echo": {"x": "y"}}, "broken": {"error": "..."}},
//	  "response": {"outputs": [...]},          what must come back; outputs that are not named may be anything
//	  "tolerance": 0.00001,                    how far numbers may be off: absolutely, or of the value where that is above 1
//	  "error": "part of the message",          instead of a response
//	  "log": ["part of a line", ...]           lines that must be written, in this order
//	}
//
// A case with neither a response nor an error fails until its answer is recorded; see Loaded.Record.
type Case struct {
	Name   string // of the file, without the ending
	Folder string // of the file: what "files" names lies there
	caseFile
}

type caseFile struct {
	Description string            `json:"description"`
	Request     json.RawMessage   `json:"request"`
	Files       map[string]string `json:"files"`
	Models      map[string]answer `json:"models"`
	Response    json.RawMessage   `json:"response"`
	Tolerance   float64           `json:"tolerance"`
	Error       string            `json:"error"`
	Log         []string          `json:"log"`
}

// answer is what another model says to a step that calls it: a fixed response, its inputs under other names, or an
// error.
type answer struct {
	Response json.RawMessage   `json:"response"`
	Echo     map[string]string `json:"echo"`
	Error    string            `json:"error"`
}

// Cases reads the cases in folder, sorted by name. Errors: NotFound (there are none), Invalid (a file is not a case;
// the message names it), TooLarge.
func Cases(folder string) ([]Case, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(paths) == 0 {
		return nil, edgewise.Errorf("step.Cases", edgewise.NotFound, "%s holds no case: want files that end in .json", folder)
	}
	slices.Sort(paths)
	cases := make([]Case, len(paths))
	for i, path := range paths {
		if cases[i], err = readCase(path); err != nil {
			return nil, err
		}
	}
	return cases, nil
}

func readCase(path string) (Case, error) {
	c := Case{Name: strings.TrimSuffix(filepath.Base(path), ".json"), Folder: filepath.Dir(path)}
	file, err := os.Open(path)
	if err != nil {
		return c, made(err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxCaseBytes+1))
	if err != nil {
		return c, made(err)
	}
	if len(data) > maxCaseBytes {
		return c, edgewise.Errorf("step.Cases", edgewise.TooLarge,
			"%s has more than %d bytes: name large tensors in \"files\"", path, maxCaseBytes)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c.caseFile); err != nil {
		return c, edgewise.Errorf("step.Cases", edgewise.Invalid, "%s: %w", path, err)
	}
	if c.Response != nil && c.Error != "" {
		return c, edgewise.Errorf("step.Cases", edgewise.Invalid, "%s: want one of \"response\" and \"error\"", path)
	}
	return c, nil
}

// request makes the request of a case for a model.
func (c *Case) request(m *edgewise.Model) (*edgewise.Request, error) {
	body := []byte(c.Request)
	if body == nil {
		body = []byte(`{"inputs": []}`)
	}
	decoded, err := kserve.NewDecoder(kserve.Limits{}).Infer(edgewise.ModelID{Name: m.Name}, body, len(body))
	if err != nil {
		return nil, c.wrong("request", err)
	}
	req := decoded.Request
	specs := m.Inputs()
	for name := range c.Files {
		if !slices.ContainsFunc(specs, func(s edgewise.Spec) bool { return s.Name == name }) {
			return nil, c.wrong("files", edgewise.Errorf("step.Cases", edgewise.Invalid, "the step declares no input %q", name))
		}
	}
	for _, spec := range specs {
		name, ok := c.Files[spec.Name]
		if !ok {
			continue
		}
		t, err := tensorfile.Read(filepath.Join(c.Folder, filepath.FromSlash(name)), spec, tensorfile.Options{})
		if err != nil {
			return nil, c.wrong("files", err)
		}
		req.Inputs = append(req.Inputs, t)
	}
	if err := checkInputs(&req, m); err != nil {
		return nil, c.wrong("request", err)
	}
	return &req, nil
}

// checkInputs holds a request against the model, as the box does before a step runs.
func checkInputs(req *edgewise.Request, m *edgewise.Model) error {
	specs := m.Inputs()
	for i := range req.Inputs {
		t := &req.Inputs[i]
		k := slices.IndexFunc(specs, func(s edgewise.Spec) bool { return s.Name == t.Name })
		if k < 0 {
			return edgewise.Errorf("step.Run", edgewise.Invalid, "input %q: the step declares no such input", t.Name)
		}
		if err := t.Check(); err != nil {
			return edgewise.Errorf("step.Run", edgewise.Invalid, "%w", err)
		}
		if t.Type != specs[k].Type || !specs[k].Shape.Accepts(t.Shape) {
			return edgewise.Errorf("step.Run", edgewise.Invalid, "input %q: want %v%v, got %v%v", t.Name, specs[k].Type,
				specs[k].Shape, t.Type, t.Shape)
		}
	}
	for _, s := range specs {
		if !s.Optional && !slices.ContainsFunc(req.Inputs, func(t edgewise.Tensor) bool { return t.Name == s.Name }) {
			return edgewise.Errorf("step.Run", edgewise.Invalid, "input %q is missing", s.Name)
		}
	}
	return nil
}

// about puts the case's name in front of an error.
func (c *Case) about(err error) error {
	return edgewise.Errorf("step.Run", edgewise.KindOf(err), "case %q: %w", c.Name, err)
}

func (c *Case) wrong(what string, err error) error {
	return edgewise.Errorf("step.Cases", edgewise.Invalid, "case %q: %s: %w", c.Name, what, err)
}
