package jpeg

// natural is where the coefficients of a file stand in a block, row by row.
var natural = [block]uint8{
	0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28,
	35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
}

// coefficients are those of a block, dequantized, two in each word: that of an even column, plus 1<<32 times that of
// the next one. Sums, differences and multiples of words are then those of both, as long as each fits into 32 bits.
type coefficients [block / 2]int64

// read reads a block. seen has a bit for each coefficient that may not be 0, but for the first. Coefficients beyond the
// block end it, as image/jpeg has it.
func (r *reader) read(b *coefficients, dc, ac *table, quant *[block]int32, prediction *int32) (seen uint64, err error) {
	*b = coefficients{}
	acc, n, at := r.acc, r.n, r.at
	if n < enough {
		acc, n, at = r.fill(acc, n, at)
	}
	e := dc.fast[acc>>(64-peek)]
	if e == 0 {
		if e = dc.slow(uint32(acc>>48), false); e == 0 {
			return 0, r.wrong(n)
		}
	}
	acc, n = acc<<(e&63), n-int(e&63)
	if size := e >> entrySize & 31; size > 0 {
		*prediction += value(acc, size)
		acc, n = acc<<size, n-int(size)
	} else {
		*prediction += e >> entryValue
	}
	b[0] = int64(*prediction) * int64(quant[0])
	for k := 1; k < block; k++ {
		if n < enough {
			acc, n, at = r.fill(acc, n, at)
		}
		e := ac.fast[acc>>(64-peek)]
		v := e >> entryValue
		if v == 0 {
			if e == 0 {
				if e = ac.slow(uint32(acc>>48), true); e == 0 {
					return 0, r.wrong(n)
				}
			}
			acc, n = acc<<(e&63), n-int(e&63)
			run, size := e>>entryRun&15, e>>entrySize&15
			if size == 0 {
				if run == 0 {
					break
				}
				k += 15
				continue
			}
			if k += int(run); k >= block {
				break
			}
			v = value(acc, size)
			acc, n = acc<<size, n-int(size)
		} else {
			if k += int(e >> entryRun & 15); k >= block {
				length := ac.length(uint32(acc >> 48))
				acc, n = acc<<length, n-length
				break
			}
			acc, n = acc<<(e&63), n-int(e&63)
		}
		place := natural[k]
		seen |= 1 << place
		b[place>>1] += int64(v*quant[k]) << (place & 1 << 5)
	}
	r.acc, r.n, r.at = acc, n, at
	if r.overrun() {
		return 0, errShort
	}
	return seen, nil
}

// wrong says why no code was found: there are n bits left.
func (r *reader) wrong(n int) error {
	if n < r.pad+16 {
		return errShort
	}
	return errCode
}

// value is the number that the next bits stand for, 1 to 16 of them.
func value(acc uint64, size int32) int32 {
	v := int32(acc >> (64 - size))
	return v + (1-1<<size)&^int32(int64(acc)>>63)
}
