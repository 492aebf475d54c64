package kserve

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// IndexRequest is the body of POST /v2/repository/index, which may also be empty.
type IndexRequest struct {
	Ready bool `json:"ready"` // only versions that are ready
}

// ReadIndexRequest reads the body of POST /v2/repository/index. Members that it does not know are ignored. Errors:
// Invalid, TooLarge for deep nesting of what is ignored.
func ReadIndexRequest(body []byte) (IndexRequest, error) {
	var request IndexRequest
	c := cursor{b: body, maxDepth: maxIndexDepth}
	if c.next(); c.p == len(body) {
		return request, nil
	}
	if c.next() != '{' {
		return request, c.bad(badValue)
	}
	err := c.object(func(name []byte) error {
		if string(name) != "ready" {
			return c.skip(wordsRefused)
		}
		ready, ok := c.bool()
		if !ok {
			e := edgewise.Errorf(opDecode, edgewise.Invalid, "Invalid value for 'ready': expected a boolean, got %s", c.found())
			e.Field = "ready"
			return e
		}
		request.Ready = ready
		return nil
	})
	if err != nil {
		return request, err
	}
	return request, c.document()
}

// maxIndexDepth bounds the nesting of members that are ignored.
const maxIndexDepth = 100

// IndexEntry is one element of the answer to POST /v2/repository/index. A model that was never loaded has a
// name only, and a state and a reason when it cannot be.
type IndexEntry struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	State   string `json:"state,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// NewIndexEntry describes a status. One with a version of 0 is a model that was never loaded; its reason says why it
// cannot be.
func NewIndexEntry(s edgewise.Status) IndexEntry {
	e := IndexEntry{Name: s.ID.Name}
	if s.ID.Version != 0 {
		e.Version = strconv.FormatInt(s.ID.Version, 10)
	}
	if s.ID.Version != 0 || s.Reason != "" {
		e.State, e.Reason = s.State.String(), s.Reason
	}
	return e
}

// LoadRequest is the body of POST /v2/repository/models/M/load, which may also be empty.
type LoadRequest struct {
	Parameters map[string]json.RawMessage `json:"parameters"`
}

// FilePrefix begins the names of load parameters that are files; the path inside the model's folder follows.
const FilePrefix = "file:"

// Override reads what the load gives in place of what the model's folder holds. Errors: Invalid.
func (l LoadRequest) Override() (edgewise.LoadOverride, error) {
	var o edgewise.LoadOverride
	for key, raw := range l.Parameters {
		path, isFile := strings.CutPrefix(key, FilePrefix)
		if key != "config" && !isFile {
			return o, invalid("Unrecognized load parameter '%.100s'", key)
		}
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return o, invalid("load parameter '%.100s' is %.40s: want text", key, raw)
		}
		if !isFile {
			o.Config = []byte(text)
			continue
		}
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return o, invalid("load parameter '%.100s': its text is not base64: %w", key, err)
		}
		if o.Files == nil {
			o.Files = map[string][]byte{}
		}
		o.Files[path] = data
	}
	return o, nil
}

// CheckLoadName checks the name of a model to load or unload, with the errors of the protocol. Errors: Invalid.
func CheckLoadName(name string) error {
	trimmed := strings.TrimSpace(name)
	switch {
	case trimmed == "":
		return invalid("Model name cannot be empty. Please enter a valid name to deploy.")
	case trimmed == ".." || strings.Contains(trimmed, "/"):
		return invalid("invalid model name '%.200s', model name must not contain path traversal characters", name)
	case edgewise.CheckName(name) != nil:
		return invalid("failed to load '%.200s', failed to poll from model repository: %w", name, edgewise.CheckName(name))
	}
	return nil
}
