package modelconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/document"
)

// Pbtxt is the name of a configuration in protobuf text format.
const Pbtxt = "config.pbtxt"

// Fields writes what m sets, field by field, in the form of config.pbtxt. Its text is "" where a field is not set.
func Fields(m *edgewise.Model) []document.Text {
	list := document.Print(m, schema)
	i := slices.IndexFunc(list, func(t document.Text) bool { return t.Name == "max_batch_size" })
	switch m.MaxBatchSize {
	case Unset:
		list[i].Text = ""
	case 0:
		list[i].Text = "max_batch_size: 0\n"
	}
	return list
}

// Text writes m, as Read and Parse return it, as config.pbtxt.
func Text(m *edgewise.Model) []byte {
	var b strings.Builder
	for _, f := range Fields(m) {
		b.WriteString(f.Text)
	}
	return []byte(b.String())
}

// Edit returns a config.pbtxt with other values of fields at its top, given as a JSON object; null removes a field. All
// else, comments included, stays. Errors: those of Parse.
func Edit(text, changes []byte) ([]byte, error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(changes, &given); err != nil {
		return nil, edgewise.Errorf("modelconfig.Edit", edgewise.Invalid, "changes of a configuration: %w", err)
	}
	set := map[string]json.RawMessage{}
	for name, value := range given {
		if string(value) != "null" {
			set[name] = value
		}
	}
	values, err := json.Marshal(set)
	if err != nil {
		return nil, edgewise.Errorf("modelconfig.Edit", edgewise.Internal, "%w", err)
	}
	m, err := Parse("config.json", values)
	if err != nil {
		return nil, err
	}
	changed := slices.DeleteFunc(Fields(m), func(f document.Text) bool {
		_, named := given[f.Name]
		return !named
	})
	if len(changed) < len(given) {
		return nil, edgewise.Errorf("modelconfig.Edit", edgewise.Invalid,
			"changes of a configuration remove a field that there is not")
	}
	edited, err := document.Replace(Pbtxt, text, changed)
	if err != nil {
		return nil, wrap(err)
	}
	return edited, nil
}

// Problems lists what an error of Parse, Identify, Complete or Validate says of a config.pbtxt. One that names a field
// has the line of it.
func Problems(text []byte, err error) []document.Problem {
	if d, ok := errors.AsType[*document.Error](err); ok {
		list := slices.Clone(d.Problems)
		if d.More > 0 {
			list = append(list, document.Problem{Text: fmt.Sprintf("... and %d more", d.More)})
		}
		return list
	}
	var list []document.Problem
	doc, unread := document.Parse(Pbtxt, document.Pbtxt, text)
	for line := range strings.SplitSeq(err.Error(), "\n") {
		p := document.Problem{File: Pbtxt, Text: line}
		if _, rest, ok := strings.Cut(line, `": `); ok && strings.HasPrefix(line, `model "`) {
			p.Text = rest
		}
		if end := strings.IndexAny(p.Text, "[:. "); end > 0 && unread == nil {
			if f := doc.Root.Field(p.Text[:end]); f != nil {
				p.Line = f.Line
			}
		}
		list = append(list, p)
	}
	return list
}
