package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/api/npy"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/tensorfile"
)

// shownValues is how many values of an output the text form prints.
const shownValues = 8

// SaveOutputs writes one .npy file for each output.
func SaveOutputs(dir string, outputs []edgewise.Tensor) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	written := map[string]bool{}
	for _, t := range outputs {
		path := dir + "/" + tensorfile.FileName(written, t.Name) + ".npy"
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		err = npy.Write(f, t)
		if closing := f.Close(); err == nil {
			err = closing
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// PrintOutputs prints the whole answer as JSON, or the beginning of each output as text.
func (p *Program) PrintOutputs(res *edgewise.Response) error {
	body, _, err := kserve.AppendInferResponse(nil, &kserve.InferRequest{}, res)
	if err != nil {
		return err
	}
	if p.Output == "json" {
		_, err := fmt.Fprintf(p.Out, "%s\n", body)
		return err
	}
	var answer struct {
		Outputs []struct {
			Name, Datatype string
			Shape          edgewise.Shape
			Data           []json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("the answer holds values that only --output json prints: %w", err)
	}
	fmt.Fprintf(p.Out, "model %v\n", res.Model)
	for _, t := range answer.Outputs {
		fmt.Fprintf(p.Out, "%s %s%v %s\n", t.Name, t.Datatype, t.Shape, beginning(t.Data))
	}
	return nil
}

func beginning(values []json.RawMessage) string {
	var b strings.Builder
	for i, v := range values {
		if i == shownValues {
			fmt.Fprintf(&b, " ... %d values", len(values))
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.Write(v)
	}
	return b.String()
}
