package jpeg

import "encoding/binary"

// reader gives out the bits of entropy-coded data. It stops at markers, behind which there are zeros; who has taken
// some of these has read too far.
type reader struct {
	file []byte
	at   int    // the next byte
	acc  uint64 // the next bits, the first one on top
	n    int    // bits in acc; those behind them are either right or 0
	pad  int    // of these, zeros that are not in the file
}

// enough is how many bits a coefficient takes at most: 16 of its code, 16 of its value.
const enough = 32

// fill makes at least enough bits out of acc, n and at, and returns those.
func (r *reader) fill(acc uint64, n, at int) (uint64, int, int) {
	if at+8 <= len(r.file) {
		w := binary.BigEndian.Uint64(r.file[at:])
		if (^w-0x0101010101010101)&w&0x8080808080808080 == 0 { // no byte is 0xff
			whole := (64 - n) >> 3
			return acc | w>>n, n + 8*whole, at + whole
		}
	}
	return r.creep(acc, n, at)
}

// creep is fill by single bytes.
func (r *reader) creep(acc uint64, n, at int) (uint64, int, int) {
	for n < enough {
		if at >= len(r.file) || r.file[at] == 0xff && (at+1 >= len(r.file) || r.file[at+1] != 0) {
			r.pad += enough
			return acc, n + enough, at
		}
		b := r.file[at]
		at++
		if b == 0xff {
			at++
		}
		acc |= uint64(b) << (56 - n)
		n += 8
	}
	return acc, n, at
}

// overrun tells whether bits have been taken that are not in the file.
func (r *reader) overrun() bool { return r.n < r.pad }

// skipRestart goes on behind the next restart marker, which is to be that of a number from 0 to 7. What stands before
// it is not looked at, as long as it is no marker.
func (r *reader) skipRestart(number int) error {
	r.acc, r.n, r.pad = 0, 0, 0
	for ; r.at+1 < len(r.file); r.at++ {
		if r.file[r.at] != 0xff || r.file[r.at+1] == 0xff {
			continue
		}
		switch marker := r.file[r.at+1]; marker {
		case byte(rst0 + number):
			r.at += 2
			return nil
		case 0:
			r.at++
		default:
			return errOrder
		}
	}
	return errShort
}

// atEnd tells whether what follows the pixels is the end of the file. Bytes that are no marker, and restart markers,
// are not looked at.
func (r *reader) atEnd() (end, short bool) {
	filled := false
	for at := r.at; at+1 < len(r.file); at++ {
		if r.file[at] != 0xff || r.file[at+1] == 0xff {
			filled = r.file[at] == 0xff
			continue
		}
		switch marker := r.file[at+1]; {
		case marker == eoi:
			return true, false
		case marker == 0 && !filled || marker >= rst0 && marker <= rst7:
			at++
		default:
			return false, false
		}
		filled = false
	}
	return false, true
}
