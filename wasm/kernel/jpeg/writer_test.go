package jpeg_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// options say how a test file is written.
type options struct {
	width, height int
	sampling      [][2]int // of each component: blocks of a unit, across and down
	restart       int
	coarse        int // quantization: 1 keeps nearly all, 200 hardly anything
	wide          bool
	ids           string
	segments      string // before the frame
	frame         byte
	noise         float64
}

// order is where the n-th coefficient of a file stands.
func order() (list []int) {
	for sum := range 15 {
		for i := range sum + 1 {
			y, x := sum-i, i
			if sum%2 == 1 {
				y, x = i, sum-i
			}
			if x < 8 && y < 8 {
				list = append(list, 8*y+x)
			}
		}
	}
	return list
}

// codes are the Huffman codes of symbols: a few short ones and very long ones.
type codes struct {
	counts  [16]byte
	symbols []byte
	code    map[byte]uint32
	length  map[byte]int
}

func newCodes(symbols []byte) *codes {
	c := &codes{symbols: symbols, code: map[byte]uint32{}, length: map[byte]int{}}
	room := [17]int{2: 1, 3: 2, 4: 2, 5: 3, 6: 4, 7: 5, 8: 6, 9: 8, 10: 10, 11: 6, 12: 6, 13: 6, 14: 6, 15: 6, 16: 256}
	code, at := uint32(0), 0
	for length := 1; length <= 16; length++ {
		for ; room[length] > 0 && at < len(symbols); at++ {
			c.code[symbols[at]], c.length[symbols[at]] = code, length
			c.counts[length-1]++
			room[length]--
			code++
		}
		code <<= 1
	}
	return c
}

// writer makes a file.
type writer struct {
	file []byte
	acc  uint64
	n    int
}

func (w *writer) segment(marker byte, body []byte) {
	w.file = append(w.file, 0xff, marker)
	w.file = append(binary.BigEndian.AppendUint16(w.file, uint16(len(body)+2)), body...)
}

func (w *writer) bits(v uint32, n int) {
	w.acc, w.n = w.acc<<n|uint64(v)&(1<<n-1), w.n+n
	for ; w.n >= 8; w.n -= 8 {
		b := byte(w.acc >> (w.n - 8))
		if w.file = append(w.file, b); b == 0xff {
			w.file = append(w.file, 0)
		}
	}
}

func (w *writer) flush() {
	if w.n > 0 {
		w.bits(1<<(8-w.n)-1, 8-w.n)
	}
}

// magnitude is how many bits a value takes, and these.
func magnitude(v int) (bits uint32, n int) {
	for a := max(v, -v); a>>n > 0; n++ {
	}
	if v < 0 {
		v += 1<<n - 1
	}
	return uint32(v), n
}

// write makes a file of smooth random planes with some noise.
func write(r *rand.Rand, o options) []byte {
	w := &writer{file: []byte{0xff, 0xd8}}
	w.file = append(w.file, o.segments...)
	zigzag := order()
	quant := make([]int, 64)
	var table []byte
	for i := range quant {
		quant[i] = 1 + o.coarse*(1+zigzag[i]%8+zigzag[i]/8)/8
		if o.wide {
			table = binary.BigEndian.AppendUint16(table, uint16(quant[i]))
		} else {
			quant[i] = min(quant[i], 255)
			table = append(table, byte(quant[i]))
		}
	}
	number := byte(0)
	if o.wide {
		number = 0x10
	}
	w.segment(0xdb, append([]byte{number}, table...))
	frame := []byte{8, byte(o.height >> 8), byte(o.height), byte(o.width >> 8), byte(o.width), byte(len(o.sampling))}
	scan := []byte{byte(len(o.sampling))}
	most := [2]int{1, 1}
	for i, s := range o.sampling {
		id := byte(i + 1)
		if o.ids != "" {
			id = o.ids[i]
		}
		frame, scan = append(frame, id, byte(s[0]<<4|s[1]), 0), append(scan, id, 0)
		most = [2]int{max(most[0], s[0]), max(most[1], s[1])}
	}
	w.segment(max(o.frame, 0xc0), frame)
	var dcSymbols, acSymbols []byte
	for s := range 12 {
		dcSymbols = append(dcSymbols, byte(s))
	}
	for sum := range 26 {
		for size := range 11 {
			if run := sum - size; run >= 0 && run < 16 && (size > 0 || run == 0 || run == 15) {
				acSymbols = append(acSymbols, byte(run<<4|size))
			}
		}
	}
	dc, ac := newCodes(dcSymbols), newCodes(acSymbols)
	w.segment(0xc4, append(append(append([]byte{0}, dc.counts[:]...), dc.symbols...),
		append(append([]byte{0x10}, ac.counts[:]...), ac.symbols...)...))
	if o.restart > 0 {
		w.segment(0xdd, []byte{byte(o.restart >> 8), byte(o.restart)})
	}
	w.segment(0xda, append(scan, 0, 63, 0))
	sampling := o.sampling
	if len(sampling) == 1 {
		sampling, most = [][2]int{{1, 1}}, [2]int{1, 1}
	}
	across, down := (o.width+8*most[0]-1)/(8*most[0]), (o.height+8*most[1]-1)/(8*most[1])
	before := make([]int, len(sampling))
	for unit := range across * down {
		if o.restart > 0 && unit > 0 && unit%o.restart == 0 {
			w.flush()
			w.file = append(w.file, 0xff, byte(0xd0+(unit/o.restart-1)%8))
			clear(before)
		}
		for i, s := range sampling {
			for range s[0] * s[1] {
				coefficients := blockOf(r, o.noise)
				last := before[i]
				for k, at := range zigzag {
					coefficients[at] = math.Round(coefficients[at] / float64(quant[k]))
				}
				before[i] = int(coefficients[0])
				v, n := magnitude(before[i] - last)
				w.bits(dc.code[byte(n)], dc.length[byte(n)])
				w.bits(v, n)
				run := 0
				for _, at := range zigzag[1:] {
					c := int(coefficients[at])
					if c == 0 {
						run++
						continue
					}
					for ; run > 15; run -= 16 {
						w.bits(ac.code[0xf0], ac.length[0xf0])
					}
					v, n := magnitude(c)
					symbol := byte(run<<4 | n)
					w.bits(ac.code[symbol], ac.length[symbol])
					w.bits(v, n)
					run = 0
				}
				if run > 0 {
					w.bits(ac.code[0], ac.length[0])
				}
			}
		}
	}
	w.flush()
	return append(w.file, 0xff, 0xd9)
}

// blockOf makes the coefficients of 8 x 8 samples: a slope, and noise on it.
func blockOf(r *rand.Rand, noise float64) (f [64]float64) {
	var samples [64]float64
	base, dx, dy := 256*r.Float64()-128, 20*r.NormFloat64(), 20*r.NormFloat64()
	for i := range samples {
		samples[i] = math.Round(min(max(base+dx*float64(i%8-4)+dy*float64(i/8-4)+noise*r.NormFloat64(), -128), 127))
	}
	return transform(transform(samples))
}

// waves are the eight cosine waves of eight samples, each at the scale that the transform of a file gives it.
var waves = func() (w [8][8]float64) {
	for u := range w {
		for i := range w[u] {
			w[u][i] = math.Cos(float64((2*i+1)*u)*math.Pi/16) / 2
			if u == 0 {
				w[u][i] /= math.Sqrt2
			}
		}
	}
	return w
}()

// transform turns each row into the strengths of the waves in it, and rows into columns.
func transform(rows [64]float64) (f [64]float64) {
	for y := range 8 {
		row := (*[8]float64)(rows[8*y:])
		for u := range waves {
			sum := 0.0
			for i, wave := range &waves[u] {
				sum += row[i] * wave
			}
			f[8*u+y] = sum
		}
	}
	return f
}
