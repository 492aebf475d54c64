package step

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// Record runs a case that has neither a response nor an error, and writes what the step answers into its file, as
// the response that must come back from now on. The rest of the file stays as it is. It tells whether it has
// written. Errors: those of the step, with the case's name.
func (l *Loaded) Record(ctx context.Context, c *Case) (written bool, err error) {
	if !c.open() {
		return false, nil
	}
	req, err := c.request(l.Model)
	if err != nil {
		return false, err
	}
	l.models.set(c.Models)
	response, err := l.Infer(ctx, req)
	l.lines.take()
	if err != nil {
		return false, c.about(err)
	}
	defer response.Release()
	if c.Response, err = outputsOf(response); err != nil {
		return false, c.about(err)
	}
	path := filepath.Join(c.Folder, c.Name+".json")
	text, err := os.ReadFile(path)
	if err != nil {
		return false, made(err)
	}
	return true, made(os.WriteFile(path, withResponse(text, c.Response), 0o644))
}

// open tells whether a case does not say yet what must come of it.
func (c *Case) open() bool { return c.Response == nil && c.Error == "" }

// outputsOf returns the outputs of a response as a case has them.
func outputsOf(response *edgewise.Response) (json.RawMessage, error) {
	body, _, err := kserve.AppendInferResponse(nil, &kserve.InferRequest{}, response)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Outputs json.RawMessage `json:"outputs"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, edgewise.Errorf("step.Record", edgewise.Unsupported,
			"the answer holds values that JSON does not have: %w", err)
	}
	return append(append([]byte(`{"outputs": `), answer.Outputs...), '}'), nil
}

// requestOf returns a request as a case has it.
func requestOf(req *edgewise.Request) ([]byte, error) {
	body, _, err := kserve.AppendInferRequest(nil, req, kserve.JSON, kserve.JSON)
	if err != nil {
		return nil, err
	}
	var r struct {
		Parameters map[string]any  `json:"parameters,omitempty"`
		Inputs     json.RawMessage `json:"inputs"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, edgewise.Errorf("step.NewCase", edgewise.Unsupported, "the request holds values that JSON does not have: %w", err)
	}
	r.Parameters = req.Parameters // without those of the protocol
	return json.Marshal(r)
}

// withResponse adds a response to the text of a case, which is a JSON object without one.
func withResponse(text []byte, response json.RawMessage) []byte {
	inside := bytes.TrimRight(text, " \t\r\n")
	inside = bytes.TrimRight(bytes.TrimSuffix(inside, []byte("}")), " \t\r\n")
	comma := ","
	if bytes.HasSuffix(inside, []byte("{")) {
		comma = ""
	}
	out := append(bytes.Clone(inside), comma+"\n  \"response\": "...)
	return append(append(out, response...), "\n}\n"...)
}

// NewCase writes a request and its answer as a new case of the step in dir. Errors: Exists (there is one of that
// name), Invalid (the name), TooLarge (the tensors belong into files beside the case).
func NewCase(dir, name string, req *edgewise.Request, response *edgewise.Response) (path string, err error) {
	if err := edgewise.CheckName(name); err != nil {
		return "", edgewise.Errorf("step.NewCase", edgewise.Invalid, "case %q: %w", name, err)
	}
	request, err := requestOf(req)
	if err != nil {
		return "", err
	}
	outputs, err := outputsOf(response)
	if err != nil {
		return "", err
	}
	text := withResponse(append(append([]byte("{\n  \"request\": "), request...), '}'), outputs)
	path = filepath.Join(dir, CasesFolder, name+".json")
	if len(text) > maxCaseBytes {
		return "", edgewise.Errorf("step.NewCase", edgewise.TooLarge,
			"%s would have more than %d bytes: name large tensors in \"files\"", path, maxCaseBytes)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", made(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return "", edgewise.Errorf("step.NewCase", edgewise.Exists, "%s is there already", path)
	}
	if err != nil {
		return "", made(err)
	}
	_, err = f.Write(text)
	return path, made(errors.Join(err, f.Close()))
}
