package real

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// StartMachine makes the kill before it look like a loss of power: the machine has started again, so that no model is
// blamed for the end of the program.
func StartMachine(t testing.TB, dir string) {
	t.Helper()
	path := filepath.Join(dir, "starts.json")
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	var kept map[string]any
	if err := json.Unmarshal(text, &kept); err != nil { // cut off in the middle: the box forgets what it cannot read
		return
	}
	kept["boot"] = "an earlier one"
	if text, err = json.Marshal(kept); err == nil {
		err = os.WriteFile(path, text, 0o640)
	}
	if err != nil {
		t.Fatal(err)
	}
}
