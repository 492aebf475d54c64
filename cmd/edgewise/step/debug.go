package step

import (
	"cmp"
	"debug/dwarf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/wasm/fuel"
)

// keepLines replaces the debug information in a module by the lines of the source, which is all that the box reads.
func keepLines(path string) error {
	module, err := os.ReadFile(path)
	if err != nil {
		return made(err)
	}
	stripped, sections, err := withoutDebug(module)
	if err != nil {
		return err
	}
	lines, err := sourceLines(sections)
	if err != nil {
		return edgewise.Errorf("step.Build", edgewise.Internal, "the compiler's debug information: %w", err)
	}
	return made(os.WriteFile(path, fuel.AppendLines(stripped, lines), 0o644))
}

const (
	moduleHeader  = 8 // bytes before the first section
	customSection = 0
	codeSection   = 10
	debugPrefix   = ".debug_"
)

// withoutDebug cuts the sections with debug information out of a module and returns them by their names; the code
// section's content is ".code".
func withoutDebug(module []byte) (rest []byte, sections map[string][]byte, err error) {
	sections = map[string][]byte{}
	rest = slices.Clone(module[:min(moduleHeader, len(module))])
	for at := len(rest); at < len(module); {
		size, n := binary.Uvarint(module[at+1:])
		begin := at + 1 + n
		if n <= 0 || size > uint64(len(module)-begin) {
			return nil, nil, edgewise.Errorf("step.Build", edgewise.Internal, "the compiler's module ends within a section")
		}
		content := module[begin : begin+int(size)]
		if module[at] == codeSection {
			sections[".code"] = content
		}
		name := ""
		if length, n := binary.Uvarint(content); module[at] == customSection && n > 0 && length <= uint64(len(content)-n) {
			name, content = string(content[n:n+int(length)]), content[n+int(length):]
		}
		if strings.HasPrefix(name, debugPrefix) {
			sections[name] = content
		} else {
			rest = append(rest, module[at:begin+int(size)]...)
		}
		at = begin + int(size)
	}
	return rest, sections, nil
}

// sourceLines reads the line tables, whose addresses are offsets in the code section: in ascending order, each line of
// the source once where several entries of the table follow each other.
func sourceLines(sections map[string][]byte) ([]fuel.Line, error) {
	of := func(name string) []byte { return sections[debugPrefix+name] }
	data, err := dwarf.New(of("abbrev"), nil, nil, of("info"), of("line"), nil, of("ranges"), of("str"))
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"addr", "line_str", "str_offsets", "rnglists"} { // of DWARF 5
		if err := data.AddSection(debugPrefix+name, of(name)); err != nil {
			return nil, err
		}
	}
	var lines []fuel.Line
	for units := data.Reader(); ; units.SkipChildren() {
		unit, err := units.Next()
		if err != nil {
			return nil, err
		}
		if unit == nil {
			break
		}
		table, err := data.LineReader(unit)
		if err != nil {
			return nil, err
		}
		if table == nil {
			continue
		}
		if lines, err = appendTable(lines, table, uint64(len(sections[".code"]))); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(lines, func(a, b fuel.Line) int { return cmp.Compare(a.At, b.At) })
	return slices.CompactFunc(lines, func(a, b fuel.Line) bool { return a.File == b.File && a.Line == b.Line }), nil
}

// appendTable appends the lines of one table. A sequence of lines whose code the linker has left out begins at address
// 0, or behind the end of the code.
func appendTable(lines []fuel.Line, table *dwarf.LineReader, code uint64) ([]fuel.Line, error) {
	var entry dwarf.LineEntry
	begin := len(lines)
	for {
		err := table.Next(&entry)
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return nil, err
		}
		switch {
		case entry.EndSequence:
			if len(lines) > begin && (lines[begin].At == 0 || entry.Address > code) {
				lines = lines[:begin]
			}
			begin = len(lines)
		case entry.Line > 0 && entry.File != nil:
			lines = append(lines, fuel.Line{
				At: uint32(entry.Address), File: filepath.Base(entry.File.Name), Line: uint32(entry.Line),
			})
		}
	}
}
