// Command prune copies a library with code for GPUs and keeps the code for some generations only, so that it packs
// small. The containers stay where they are; what is left out of them becomes zeros. It is for tests: what ships is not
// pruned.
//
//	prune FROM TO 90
package main

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "want: prune FROM TO GENERATION,...")
		os.Exit(2)
	}
	if err := prune(os.Args[1], os.Args[2], strings.Split(os.Args[3], ",")); err != nil {
		fmt.Fprintln(os.Stderr, "prune:", err)
		os.Exit(1)
	}
}

func prune(from, to string, keep []string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	f, err := elf.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	section := f.Section(".nv_fatbin")
	if section == nil {
		return fmt.Errorf("%s has no code for GPUs", from)
	}
	kept := 0
	code := data[section.Offset : section.Offset+section.Size]
	for at := 0; at+16 <= len(code); {
		if binary.LittleEndian.Uint32(code[at:]) != 0xBA55ED50 {
			at += 8
			continue
		}
		first := at + int(binary.LittleEndian.Uint16(code[at+6:]))
		end := first + int(binary.LittleEndian.Uint64(code[at+8:]))
		if end > len(code) {
			return fmt.Errorf("%s: a container goes beyond its section", from)
		}
		left := wanted(code[first:end], keep)
		if len(left) > 0 { // a container without a wanted generation stays as it is: an empty one is not well-formed
			clear(code[first+copy(code[first:end], left) : end])
			binary.LittleEndian.PutUint64(code[at+8:], uint64(len(left)))
			kept++
		}
		at = end
	}
	fmt.Printf("%s: %d containers with code for %s\n", to, kept, strings.Join(keep, ", "))
	return os.WriteFile(to, data, 0o755)
}

// wanted copies the entries of a container that are to stay.
func wanted(container []byte, keep []string) []byte {
	var left []byte
	for at := 0; at+32 <= len(container); {
		size := int(binary.LittleEndian.Uint32(container[at+4:])) + int(binary.LittleEndian.Uint64(container[at+8:]))
		if size < 32 || at+size > len(container) {
			break
		}
		if slices.Contains(keep, fmt.Sprint(binary.LittleEndian.Uint32(container[at+28:]))) {
			left = append(left, container[at:at+size]...)
		}
		at += size
	}
	return left
}
