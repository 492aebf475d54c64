package jpeg

// peek is how many bits of the data a table is asked with at first. Codes that are longer take a second look.
const peek = 10

// table decodes the codes of one Huffman table. An entry holds
//
//	bits 0 to 7    how many bits it consumes
//	bits 8 to 11   how many zero coefficients come before this one
//	bits 12 to 16  how many bits of the value follow those; 0: the value is complete
//	bits 17 to 31  the value, with its sign, or 0
//
// so that a short code and its value take one look. 0 is no entry.
type table struct {
	fast   [1 << peek]int32
	limit  [17]uint32 // of codes with so many bits or fewer: the first 16 bits of data that are beyond them
	offset [17]int32  // from a code to its index in values
	values [256]byte
}

// Shifts of an entry.
const (
	entryRun   = 8
	entrySize  = 12
	entryValue = 17
)

// build makes a table. It tells whether the codes are such as only sound files have: image/jpeg makes something of
// others too.
func (t *table) build(s *spec, ac bool) bool {
	*t = table{}
	code, index := 0, 0
	for length := 1; length <= 16; length++ {
		n := int(s.counts[length-1])
		if code+n > 1<<length {
			return false
		}
		t.offset[length] = int32(index - code)
		for _, symbol := range s.values[index : index+n] {
			if !sound(symbol, ac) {
				return false
			}
			if length <= peek {
				t.enter(code, length, symbol, ac)
			}
			code++
		}
		t.limit[length] = uint32(code) << (16 - length)
		index += n
		code <<= 1
	}
	copy(t.values[:], s.values)
	return true
}

// sound tells whether a symbol means something in sequential coding.
func sound(symbol byte, ac bool) bool {
	if !ac {
		return symbol <= 16
	}
	return symbol&15 != 0 || symbol == 0 || symbol == 0xf0
}

// enter fills the entries of a short code, with the value where it fits.
func (t *table) enter(code, length int, symbol byte, ac bool) {
	e, size := entry(length, symbol, ac)
	rest := peek - length
	for i := range 1 << rest {
		at := code<<rest | i
		if size == 0 || size > rest {
			t.fast[at] = e
			continue
		}
		v := int32(i >> (rest - size))
		if v < 1<<(size-1) {
			v += 1 - 1<<size
		}
		t.fast[at] = v<<entryValue | e&(15<<entryRun) | int32(length+size)
	}
}

// entry is what stands for a code whose value is not complete.
func entry(length int, symbol byte, ac bool) (e int32, size int) {
	run := 0
	size = int(symbol)
	if ac {
		run, size = size>>4, size&15
	}
	return int32(size<<entrySize | run<<entryRun | length), size
}

// slow finds the entry of a code longer than peek bits, in the next 16 bits of the data; 0 when there is none.
func (t *table) slow(next uint32, ac bool) int32 {
	for length := peek + 1; length <= 16; length++ {
		if next < t.limit[length] {
			e, _ := entry(length, t.values[byte(int32(next>>(16-length))+t.offset[length])], ac)
			return e
		}
	}
	return 0
}

// length is how many bits the code has that the next 16 bits begin with. There is one.
func (t *table) length(next uint32) int {
	for length := range 16 {
		if next < t.limit[length] {
			return length
		}
	}
	return 16
}
