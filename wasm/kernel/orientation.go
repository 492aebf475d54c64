package kernel

import "encoding/binary"

// maxSegments bounds how many segments of a JPEG file are searched for its orientation.
const maxSegments = 64

// Orientation returns the EXIF orientation of a JPEG file, 1 to 8. It returns 1, upright, for a file that states none
// and for a damaged one: the orientation is a hint.
//
// Source: CIPA DC-008 (EXIF 2.3), 4.5.4 and 4.6.4; TIFF 6.0, section 2.
func Orientation(file []byte) int {
	at := 2
	for range maxSegments {
		for at+4 < len(file) && file[at] == 0xff && file[at+1] == 0xff { // fill bytes
			at++
		}
		if at+4 > len(file) || file[at] != 0xff {
			return 1
		}
		marker, size := file[at+1], int(binary.BigEndian.Uint16(file[at+2:]))
		if marker == 0xda || size < 2 || at+2+size > len(file) {
			return 1
		}
		body := file[at+4 : at+2+size]
		if marker == 0xe1 && len(body) > 14 && string(body[:6]) == "Exif\x00\x00" {
			return tagOrientation(body[6:])
		}
		at += 2 + size
	}
	return 1
}

// tagOrientation finds the orientation in the first directory of a TIFF header.
func tagOrientation(tiff []byte) int {
	var order binary.ByteOrder = binary.LittleEndian
	if string(tiff[:2]) == "MM" {
		order = binary.BigEndian
	}
	first := uint64(order.Uint32(tiff[4:]))
	if first+2 > uint64(len(tiff)) {
		return 1
	}
	count := int(order.Uint16(tiff[first:]))
	entries := tiff[first+2:]
	for range count {
		if len(entries) < 12 {
			return 1
		}
		if order.Uint16(entries) == 0x0112 {
			if v := int(order.Uint16(entries[8:])); v >= 1 && v <= 8 {
				return v
			}
			return 1
		}
		entries = entries[12:]
	}
	return 1
}

// Turn writes the pixels of src, whose size is that before turning, into dst as an orientation from 1 to 8 says.
func Turn(dst, src []byte, s Size, orientation int, check Check) {
	p := pacer{check: check}
	w, h, n := s.Width, s.Height, s.Channels
	outW := w
	if orientation >= 5 {
		outW = h
	}
	for y := range h {
		for x := range w {
			tx, ty := target(x, y, w, h, orientation)
			copy(dst[(ty*outW+tx)*n:][:n], src[(y*w+x)*n:])
		}
		p.add(8 * w)
	}
}

// target is where a pixel goes.
func target(x, y, w, h, orientation int) (int, int) {
	switch orientation {
	case 2:
		return w - 1 - x, y
	case 3:
		return w - 1 - x, h - 1 - y
	case 4:
		return x, h - 1 - y
	case 5:
		return y, x
	case 6:
		return h - 1 - y, x
	case 7:
		return h - 1 - y, w - 1 - x
	case 8:
		return y, w - 1 - x
	}
	return x, y
}
