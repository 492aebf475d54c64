package jpeg

import "encoding/binary"

// Markers, the second byte of two.
const (
	soi   = 0xd8
	sof0  = 0xc0 // baseline
	sof1  = 0xc1 // extended sequential
	sof2  = 0xc2 // progressive
	dht   = 0xc4
	rst0  = 0xd0
	rst7  = 0xd7
	eoi   = 0xd9
	sos   = 0xda
	dqt   = 0xdb
	dri   = 0xdd
	app0  = 0xe0
	app14 = 0xee
	app15 = 0xef
	com   = 0xfe
)

const block = 64 // coefficients

// component is one of a picture's planes.
type component struct {
	id     byte
	h, v   int  // samples against those of the others, across and down
	quant  byte // its tables
	dc, ac byte
}

// spec is a Huffman table as a file has it.
type spec struct {
	counts []byte // codes of 1 to 16 bits
	values []byte
}

// Picture is a file whose header has been read.
type Picture struct {
	Width, Height int
	Components    int // 1: grey; 3: colours

	file       []byte
	at         int // where the entropy-coded data begin
	kind       byte
	jfif       bool
	adobe      int // -1: the file does not say
	restart    int // units between two restart markers; 0: there are none
	components [3]component
	quant      [4][block]int32 // in the order of the file
	tables     [2][4]spec
}

// Open reads a header up to the pixels. The picture refers to the file. Error: ErrOther.
func Open(file []byte) (*Picture, error) {
	p := &Picture{file: file, adobe: -1}
	if !p.segments() || !p.simple() {
		return nil, ErrOther
	}
	return p, nil
}

// segments reads segment by segment until the pixels begin. It tells whether all that it met is what this package reads.
func (p *Picture) segments() bool {
	if len(p.file) < 2 || p.file[0] != 0xff || p.file[1] != soi {
		return false
	}
	for at := 2; ; {
		for at+1 < len(p.file) && p.file[at] == 0xff && p.file[at+1] == 0xff { // fill bytes
			at++
		}
		if at+4 > len(p.file) || p.file[at] != 0xff {
			return false
		}
		marker, length := p.file[at+1], int(binary.BigEndian.Uint16(p.file[at+2:]))
		at += 4
		if length < 2 || at+length-2 > len(p.file) {
			return false
		}
		body := p.file[at : at+length-2]
		at += len(body)
		if marker == sos {
			p.at = at
			return p.Components > 0 && p.scan(body)
		}
		if !p.segment(marker, body) {
			return false
		}
	}
}

// segment reads one that is not the pixels'.
func (p *Picture) segment(marker byte, body []byte) bool {
	switch marker {
	case sof0, sof1, sof2:
		p.kind = marker
		return p.frame(body)
	case dht:
		return p.huffman(body)
	case dqt:
		return p.quantization(body)
	case dri:
		if len(body) != 2 {
			return false
		}
		p.restart = int(binary.BigEndian.Uint16(body))
		return true
	case app0:
		if len(body) >= 5 {
			p.jfif = string(body[:5]) == "JFIF\x00"
		}
		return true
	case app14:
		if len(body) >= 12 && string(body[:5]) == "Adobe" {
			p.adobe = int(body[11])
		}
		return true
	}
	return marker > app0 && marker <= app15 || marker == com
}

// frame reads a picture's size and its components.
func (p *Picture) frame(body []byte) bool {
	if p.Components != 0 || len(body) != 6+3 && len(body) != 6+3*3 || body[0] != 8 {
		return false
	}
	p.Height, p.Width = int(binary.BigEndian.Uint16(body[1:])), int(binary.BigEndian.Uint16(body[3:]))
	p.Components = int(body[5])
	if len(body) != 6+3*p.Components || p.Width == 0 || p.Height == 0 {
		return false
	}
	for i := range p.Components {
		c := &p.components[i]
		c.id, c.h, c.v, c.quant = body[6+3*i], int(body[7+3*i]>>4), int(body[7+3*i]&15), body[8+3*i]
		if c.h != 1 && c.h != 2 && c.h != 4 || c.v != 1 && c.v != 2 && c.v != 4 || c.quant > 3 {
			return false
		}
	}
	if p.Components == 1 {
		p.components[0].h, p.components[0].v = 1, 1 // the unit of a single component is always one block
		return true
	}
	y, cb, cr := &p.components[0], &p.components[1], &p.components[2]
	return y.id != cb.id && y.id != cr.id && cb.id != cr.id && y.v != 4 && y.h%cb.h == 0 && y.v%cb.v == 0 && cb.h == cr.h && cb.v == cr.v
}

// huffman reads Huffman tables. Later ones take the place of those before.
func (p *Picture) huffman(body []byte) bool {
	for len(body) > 0 {
		if len(body) < 17 || body[0]>>4 > 1 || body[0]&15 > 3 || p.kind == sof0 && body[0]&15 > 1 {
			return false
		}
		s := &p.tables[body[0]>>4][body[0]&15]
		s.counts = body[1:17]
		codes := 0
		for _, n := range s.counts {
			codes += int(n)
		}
		if codes == 0 || codes > 256 || len(body) < 17+codes {
			return false
		}
		s.values = body[17 : 17+codes]
		body = body[17+codes:]
	}
	return true
}

// quantization reads quantization tables.
func (p *Picture) quantization(body []byte) bool {
	for len(body) > 0 {
		wide, number := body[0]>>4, body[0]&15
		size := block << wide
		if wide > 1 || number > 3 || len(body) < 1+size {
			return false
		}
		for i := range block {
			if wide == 0 {
				p.quant[number][i] = int32(body[1+i])
			} else {
				p.quant[number][i] = int32(binary.BigEndian.Uint16(body[1+2*i:]))
			}
		}
		body = body[1+size:]
	}
	return true
}

// scan reads the header of the pixels: all components, in their order.
func (p *Picture) scan(body []byte) bool {
	n := p.Components
	if p.kind == sof2 || len(body) != 4+2*n || int(body[0]) != n {
		return false
	}
	blocks := 0
	for i := range n {
		c := &p.components[i]
		c.dc, c.ac = body[2+2*i]>>4, body[2+2*i]&15
		blocks += c.h * c.v
		if body[1+2*i] != c.id || c.dc > 3 || c.ac > 3 || p.kind == sof0 && (c.dc > 1 || c.ac > 1) {
			return false
		}
	}
	return n == 1 || blocks <= 10
}

// simple tells whether the header has all that pixels need.
func (p *Picture) simple() bool {
	for i := range p.Components {
		c := &p.components[i]
		if p.tables[0][c.dc].values == nil || p.tables[1][c.ac].values == nil {
			return false
		}
	}
	return !p.rgb()
}

// rgb tells whether the components are red, green and blue.
func (p *Picture) rgb() bool {
	c := &p.components
	return p.Components == 3 && !p.jfif && (p.adobe == 0 || c[0].id == 'R' && c[1].id == 'G' && c[2].id == 'B')
}
