// Package wat assembles WebAssembly modules from their text form, for tests, with wat2wasm of the WebAssembly Binary
// Toolkit (wabt), which "make wabt" installs.
package wat

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

var (
	repeated = regexp.MustCompile(`\(repeat ([0-9]+) ([^()"]+)\)`)
	binary   = regexp.MustCompile(`^\s*\(module binary((?:\s*"[^"]*")*)\s*\)\s*$`)
	byteHex  = regexp.MustCompile(`\\([0-9a-f]{2})`)
)

// Assemble returns the binary form of a module. The text is "(module ...)" or its fields alone. It is not validated, so
// that a test can assemble an invalid module. Functions keep their names.
//
// Two forms differ from the standard's: (repeat COUNT text) stands for many copies of a text without parentheses, and
// (module binary "...") is exactly these bytes, valid or not. A byte in them that is not printable is written \hh.
func Assemble(text string) ([]byte, error) {
	if found := binary.FindStringSubmatch(text); found != nil {
		return literal(found[1])
	}
	text = repeated.ReplaceAllStringFunc(text, func(form string) string {
		parts := repeated.FindStringSubmatch(form)
		count, _ := strconv.Atoi(parts[1])
		if !strings.HasPrefix(parts[2], `\`) { // words are separated, bytes of a string are not
			parts[2] += " "
		}
		return strings.Repeat(parts[2], count)
	})
	cmd := exec.Command("wat2wasm", "--enable-all", "--no-check", "--debug-names", "--output=-", "-")
	cmd.Stdin = strings.NewReader(text)
	var module, failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = &module, &failure
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, errors.New("wat2wasm is missing: run \"make wabt\" (on Debian: apt-get install wabt)")
	}
	if err != nil {
		return nil, fmt.Errorf("wat2wasm: %w: %s", err, failure.Bytes())
	}
	return module.Bytes(), nil
}

// literal returns the bytes of strings, one after the other.
func literal(list string) ([]byte, error) {
	list = strings.ReplaceAll(strings.Join(strings.Fields(list), ""), `""`, "")
	text, err := strconv.Unquote(`"` + byteHex.ReplaceAllString(strings.Trim(list, `"`), `\x$1`) + `"`)
	return []byte(text), err
}
