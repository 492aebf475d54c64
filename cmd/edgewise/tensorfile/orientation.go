package tensorfile

import (
	"bytes"
	"encoding/binary"
	"image"
)

// orientationTag is the number of the Orientation field in a TIFF or EXIF directory.
const orientationTag = 0x0112

// exifOrientation returns the orientation, 1 to 8, that the EXIF block of a JPEG file states. It returns 1, upright,
// when there is none or it cannot be read.
//
// Source: CIPA DC-008 (EXIF 2.3), 4.5.4 and 4.6.4; TIFF 6.0, section 2.
func exifOrientation(data []byte) int {
	if !hasMagic(data, "\xff\xd8") {
		return 1
	}
	for data = data[2:]; len(data) >= 4 && data[0] == 0xff; {
		marker, size := data[1], int(binary.BigEndian.Uint16(data[2:]))
		if marker == 0xff { // fill byte
			data = data[1:]
			continue
		}
		if marker == 0xda || size < 2 || size+2 > len(data) { // the scan begins: no further headers
			return 1
		}
		if block, ok := bytes.CutPrefix(data[4:size+2], []byte("Exif\x00\x00")); ok && marker == 0xe1 {
			return tiffOrientation(block)
		}
		data = data[size+2:]
	}
	return 1
}

func tiffOrientation(block []byte) int {
	var order binary.ByteOrder = binary.LittleEndian
	if bytes.HasPrefix(block, []byte("MM")) {
		order = binary.BigEndian
	}
	if len(block) < 8 {
		return 1
	}
	at := int64(order.Uint32(block[4:]))
	if at+2 > int64(len(block)) {
		return 1
	}
	entries := block[at+2:]
	for range order.Uint16(block[at:]) {
		if len(entries) < 12 {
			return 1
		}
		if order.Uint16(entries) == orientationTag {
			return checkOrientation(int(order.Uint16(entries[8:])))
		}
		entries = entries[12:]
	}
	return 1
}

func checkOrientation(orientation int) int {
	if orientation < 1 || orientation > 8 {
		return 1
	}
	return orientation
}

// orient returns picture upright. Orientation 1 returns picture itself.
func orient(picture *image.RGBA, orientation int) *image.RGBA {
	if orientation == 1 {
		return picture
	}
	w, h := picture.Rect.Dx(), picture.Rect.Dy()
	size := image.Pt(w, h)
	if orientation >= 5 {
		size = image.Pt(h, w)
	}
	upright := image.NewRGBA(image.Rectangle{Max: size})
	for y := range size.Y {
		for x := range size.X {
			from := source(orientation, x, y, w, h)
			copy(upright.Pix[upright.PixOffset(x, y):][:4], picture.Pix[picture.PixOffset(from.X, from.Y):][:4])
		}
	}
	return upright
}

// source returns which pixel of a stored picture of w by h pixels stands at x,y of the upright one.
func source(orientation, x, y, w, h int) image.Point {
	switch orientation {
	case 2: // mirrored left to right
		return image.Pt(w-1-x, y)
	case 3: // turned by 180 degrees
		return image.Pt(w-1-x, h-1-y)
	case 4: // mirrored top to bottom
		return image.Pt(x, h-1-y)
	case 5: // mirrored on the diagonal
		return image.Pt(y, x)
	case 6: // to be turned clockwise
		return image.Pt(y, h-1-x)
	case 7: // mirrored on the other diagonal
		return image.Pt(w-1-y, h-1-x)
	}
	return image.Pt(w-1-y, x) // 8: to be turned counter-clockwise
}
