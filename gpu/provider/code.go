package provider

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Code says for which GPUs a library brings code: compute capabilities times ten, ascending.
type Code struct {
	Binaries []int // ready to run, on the same major generation from this minor one on
	PTX      []int // to be compiled by the driver, for this generation and every later one
}

// None tells that nothing was found: the library may keep its code in a way that is not known here.
func (c Code) None() bool { return len(c.Binaries) == 0 && len(c.PTX) == 0 }

// Runs tells whether a GPU runs the code. The binaries of an integrated GPU are its own: those of others do not run
// there.
func (c Code) Runs(major, minor int, integrated bool) bool {
	have := 10*major + minor
	return slices.ContainsFunc(c.Binaries, func(b int) bool {
		return b == have || !integrated && b/10 == major && b <= have
	}) || slices.ContainsFunc(c.PTX, func(p int) bool { return p <= have })
}

// String lists the generations: "7.5, 8.0, 9.0".
func (c Code) String() string {
	text := ""
	for _, g := range c.Binaries {
		text += fmt.Sprintf(", %d.%d", g/10, g%10)
	}
	for _, g := range c.PTX {
		text += fmt.Sprintf(", %d.%d and later", g/10, g%10)
	}
	if text == "" {
		return "none"
	}
	return text[2:]
}

// The containers in which CUDA's compiler puts code into a library: a header, then entries with headers of their own,
// one for each generation.
const (
	section    = ".nv_fatbin"
	magic      = 0xBA55ED50
	headerSize = 16
	entrySize  = 32
	kindPTX    = 1
	kindBinary = 2
	maxEntries = 1 << 16 // that are looked at
)

var errContainer = errors.New("its code for GPUs is not laid out as expected")

// readCode reads the headers of the containers in a library; the code itself is passed over.
func readCode(f *elf.File) (Code, error) {
	s := f.Section(section)
	if s == nil || s.Type == elf.SHT_NOBITS {
		return Code{}, nil
	}
	var code Code
	entries := 0
	header, ahead := make([]byte, headerSize), make([]byte, lookAhead)
	for at := int64(0); at+headerSize <= int64(s.Size); {
		if _, err := s.ReadAt(header, at); err != nil {
			return Code{}, err
		}
		if binary.LittleEndian.Uint32(header) != magic {
			skipped, err := skip(s, at, ahead)
			if err != nil {
				return Code{}, err
			}
			at += skipped
			continue
		}
		own, size := binary.LittleEndian.Uint16(header[6:]), binary.LittleEndian.Uint64(header[8:])
		first := at + int64(own)
		if own < headerSize || size > s.Size || first+int64(size) > int64(s.Size) {
			return Code{}, errContainer
		}
		if err := code.container(s, first, first+int64(size), &entries); err != nil {
			return Code{}, err
		}
		at = first + int64(size)
	}
	for _, list := range []*[]int{&code.Binaries, &code.PTX} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return code, nil
}

// lookAhead is how much is read at a time of what lies between containers.
const lookAhead = 1 << 20

// skip returns how far it is from at to the next container, or as far as was looked.
func skip(s *elf.Section, at int64, ahead []byte) (int64, error) {
	n, err := s.ReadAt(ahead, at)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	for i := 8; i+4 <= n; i += 8 {
		if binary.LittleEndian.Uint32(ahead[i:]) == magic {
			return int64(i), nil
		}
	}
	return max(int64(n)&^7, 8), nil
}

// container reads the entries of one container. An entry's header holds its kind, the size of itself and of what
// follows, and the generation.
func (c *Code) container(s *elf.Section, at, end int64, entries *int) error {
	header := make([]byte, entrySize)
	for at+entrySize <= end {
		if _, err := s.ReadAt(header, at); err != nil {
			return err
		}
		kind, own, size := binary.LittleEndian.Uint16(header), binary.LittleEndian.Uint32(header[4:]), binary.LittleEndian.Uint64(header[8:])
		generation := int(binary.LittleEndian.Uint32(header[28:]))
		if *entries++; *entries > maxEntries || own < entrySize || size > uint64(end-at) || int64(own) > end-at-int64(size) {
			return errContainer
		}
		switch {
		case generation < 10 || generation > 999:
		case kind == kindBinary:
			c.Binaries = append(c.Binaries, generation)
		case kind == kindPTX:
			c.PTX = append(c.PTX, generation)
		}
		at += int64(own) + int64(size)
	}
	return nil
}
