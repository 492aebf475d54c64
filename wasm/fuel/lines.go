package fuel

import (
	"encoding/binary"
	"slices"
	"strings"
)

// Line says where code comes from: the code section's bytes from At on, up to the next Line, belong to a line of a
// source file.
type Line struct {
	At   uint32 // from the beginning of the section's content
	File string
	Line uint32
}

// linesSection is the custom section that holds the Lines of a module. The command "step build" makes it of the debug
// information that a compiler has written, which is not read here: it is large and hard to check. The content is
//
//	u32 count; name[count]                             the files
//	u32 count; {u32 at, u32 file, u32 line}[count]     the lines; at is the distance from the line before
const linesSection = "edgewise.lines"

// Bounds of the lines that are kept. Like names, they only serve messages.
const (
	maxLineFiles = 1000
	maxLines     = 50_000
)

// AppendLines appends lines, in ascending order, to a module.
func AppendLines(module []byte, lines []Line) []byte {
	numbers := map[string]uint32{}
	var files, rows []byte
	before := uint32(0)
	for _, l := range lines {
		number, known := numbers[l.File]
		if !known {
			number = uint32(len(numbers))
			numbers[l.File] = number
			files = append(appendU32(files, uint32(len(l.File))), l.File...)
		}
		rows = appendU32(appendU32(appendU32(rows, l.At-before), number), l.Line)
		before = l.At
	}
	content := append(appendU32(nil, uint32(len(numbers))), files...)
	content = append(appendU32(content, uint32(len(lines))), rows...)
	return appendCustom(module, linesSection, content)
}

// appendCustom appends a custom section to a module.
func appendCustom(module []byte, name string, content []byte) []byte {
	head := append(appendU32(nil, uint32(len(name))), name...)
	module = appendU32(append(module, customID), uint32(len(head)+len(content)))
	return append(append(module, head...), content...)
}

// readLines returns the lines of a custom section; nil when it is another one, or damaged.
func readLines(data []byte) []Line {
	r := &reader{data: data, what: "source lines"}
	if r.name() != linesSection || r.err != nil {
		return nil
	}
	files := make([]string, r.count("files", maxLineFiles))
	for i := range files {
		if files[i] = r.name(); strings.ContainsFunc(files[i], func(c rune) bool { return c < ' ' }) {
			return nil
		}
	}
	lines := make([]Line, r.count("lines", maxLines))
	at := uint64(0)
	for i := range lines {
		at += uint64(r.u32())
		file := r.index("file", len(files))
		if r.err != nil || at > 1<<32-1 {
			return nil
		}
		lines[i] = Line{At: uint32(at), File: files[file], Line: r.u32()}
	}
	if r.err != nil {
		return nil
	}
	return lines
}

// within returns the lines of the code from begin to end, counted from begin.
func within(lines []Line, begin, end int) []Line {
	place := func(at int) int {
		i, _ := slices.BinarySearchFunc(lines, at, func(l Line, at int) int { return int(l.At) - at })
		return i
	}
	part := slices.Clone(lines[place(begin):place(end)])
	for i := range part {
		part[i].At -= uint32(begin)
	}
	return part
}

// appendDebug appends lines to a module in the form in which the runtime reads them: DWARF 4 with one compilation unit
// that covers the code section, which has size bytes.
//
// Source: DWARF Debugging Information Format, version 4, sections 6.2 and 7.5; DWARF for WebAssembly.
func appendDebug(module []byte, lines []Line, size int) []byte {
	le := binary.LittleEndian
	const unit, lowPC, highPC, statements = 0x11, 0x11, 0x12, 0x10 // a tag, and attributes
	const address, data4, offset = 0x01, 0x06, 0x17                // their forms
	abbreviations := []byte{1, unit, 0, lowPC, address, highPC, data4, statements, offset, 0, 0, 0}

	const version, addressBytes = 4, 4
	info := append(le.AppendUint32(le.AppendUint16(nil, version), 0), addressBytes)
	info = le.AppendUint32(append(info, 1), 1) // the first abbreviation, low_pc: 0 would mean that the code was removed
	info = le.AppendUint32(le.AppendUint32(info, uint32(size)), 0)

	header := []byte{1, 1, 1, 0, 1, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0} // 9 opcodes with their operands; no folders
	numbers := map[string]uint32{}
	for _, l := range lines {
		if numbers[l.File] == 0 {
			numbers[l.File] = uint32(len(numbers) + 1)
			header = append(append(header, l.File...), 0, 0, 0, 0)
		}
	}
	header = append(header, 0)
	table := le.AppendUint32(le.AppendUint16(nil, version), uint32(len(header)))
	table = append(append(table, header...), lineProgram(lines, numbers, size)...)

	measured := func(content []byte) []byte { return append(le.AppendUint32(nil, uint32(len(content))), content...) }
	module = appendCustom(module, ".debug_abbrev", abbreviations)
	module = appendCustom(module, ".debug_info", measured(info))
	return appendCustom(module, ".debug_line", measured(table))
}

// lineProgram is what makes up the lines again: before each, the registers that change.
func lineProgram(lines []Line, files map[string]uint32, size int) []byte {
	const commit, advance, byLines, toFile = 1, 2, 3, 4
	const extended, end = 0, 1
	var program []byte
	at, line := uint32(0), int64(1)
	for _, l := range lines {
		program = appendU32(append(program, advance), l.At-at)
		program = appendSigned(append(program, byLines), int64(l.Line)-line)
		program = append(appendU32(append(program, toFile), files[l.File]), commit)
		at, line = l.At, int64(l.Line)
	}
	program = appendU32(append(program, advance), uint32(size)-at)
	return append(program, extended, 1, end)
}
