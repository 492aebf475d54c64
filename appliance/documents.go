package appliance

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/auth"
	"github.com/edgewise-ai/edgewise/appliance/editor"
	"github.com/edgewise-ai/edgewise/appliance/registry"
)

// checkDocument tells whether a document may stand under a key of a bucket of box.db, whose form docs/formats/box.md
// gives. Buckets of later releases pass. The error names the document and not what it holds. Errors: Invalid.
func checkDocument(bucket, key string, value []byte) error {
	var err error
	switch bucket {
	case registry.NotesBucket:
		err = checkNote(key, value)
	case editor.DraftsBucket:
		err = editor.CheckDraft(key, value)
	case boxBucket:
		_, err = decodeBox(key, value)
	case registry.DeploymentsBucket:
		err = json.Unmarshal(value, &admin.Deployment{})
	default:
		return auth.CheckDocument(bucket, key, value)
	}
	if err != nil {
		return edgewise.Errorf("appliance.checkDocument", edgewise.Invalid, "%s: document %.80q: %w", bucket, key, err)
	}
	return nil
}

// checkNote checks the notes about a model or a version.
func checkNote(key string, text []byte) error {
	name, number, versioned := strings.Cut(key, "\x00")
	if err := edgewise.CheckName(name); err != nil {
		return err
	}
	if n, err := strconv.ParseInt(number, 10, 64); versioned && (err != nil || n <= 0) {
		return fmt.Errorf("%.40q is no version", number)
	}
	if len(text) > admin.MaxNotesBytes || !utf8.Valid(text) {
		return fmt.Errorf("the notes have %d bytes: want at most %d, as UTF-8", len(text), admin.MaxNotesBytes)
	}
	return nil
}

// decodeBox reads a document of the box itself.
func decodeBox(key string, value []byte) (any, error) {
	switch key {
	case settingsKey:
		var s admin.Settings
		if err := json.Unmarshal(value, &s); err != nil {
			return nil, err
		}
		return s, checkSettings(s)
	case stepsKey:
		var steps map[string]bool
		return steps, json.Unmarshal(value, &steps)
	}
	return nil, nil
}
