package jpeg

// decoder is what decoding a picture takes beside the picture.
type decoder struct {
	*Picture
	reader
	dc, ac      [3]*table // of the components
	planes      [3][]byte // one row of units
	strides     [3]int    // bytes from one line of a plane to the next
	predictions [3]int32  // coefficient 0 of the blocks before
	shown       int       // components that are looked at
	h, v        int       // blocks of the first component in a unit, across and down
	block       coefficients
}

// looks is how many units are decoded between two calls of a check: some hundred microseconds of work.
const looks = 1 << 8

// Decode writes the pixels into dst, which has room for them: 1 channel (grey), 3 (RGB) or 4 (RGBA, opaque), rows from
// the top. It calls check now and then, which may panic to end the work. Beside dst it takes memory for one row of
// blocks. Errors: ErrOther (what follows the pixels is not for this package, or the codes are not; dst may have been
// written to), others (the file is damaged).
func (p *Picture) Decode(dst []byte, channels int, check func()) error {
	d := &decoder{Picture: p, reader: reader{file: p.file, at: p.at}, shown: p.Components}
	if channels == 1 {
		d.shown = 1
	}
	if !d.prepare() {
		return ErrOther
	}
	paint := painterOf(d, channels)
	r := &restarts{left: p.restart}
	for y := 0; y < p.Height; y += 8 * d.v {
		for x := range d.units() {
			if x%looks == 0 {
				check()
			}
			if err := d.next(r); err != nil {
				return err
			}
			if err := d.unit(x); err != nil {
				return err
			}
		}
		dst = paint(dst, min(8*d.v, p.Height-y))
	}
	switch end, short := d.atEnd(); {
	case end:
		return nil
	case short:
		return errShort
	}
	return ErrOther
}

// prepare makes tables and planes. It tells whether the tables are sound.
func (d *decoder) prepare() bool {
	d.h, d.v = d.components[0].h, d.components[0].v
	var made [2][4]*table
	for i := range d.Components {
		c := &d.components[i]
		for class, number := range [2]byte{c.dc, c.ac} {
			if made[class][number] != nil {
				continue
			}
			t := new(table)
			if !t.build(&d.tables[class][number], class == 1) {
				return false
			}
			made[class][number] = t
		}
		d.dc[i], d.ac[i] = made[0][c.dc], made[1][c.ac]
		d.strides[i] = 8 * c.h * d.units()
		d.planes[i] = make([]byte, d.strides[i]*8*c.v)
	}
	return true
}

// units is how many units are in a row.
func (d *decoder) units() int { return (d.Width + 8*d.h - 1) / (8 * d.h) }

// restarts counts units between restart markers.
type restarts struct{ left, number int }

// next begins a unit. At a restart marker the predictions start from zero.
func (d *decoder) next(r *restarts) error {
	if d.restart == 0 {
		return nil
	}
	if r.left > 0 {
		r.left--
		return nil
	}
	err := d.skipRestart(r.number)
	r.left, r.number = d.restart-1, (r.number+1)%8
	d.predictions = [3]int32{}
	return err
}

// unit decodes a unit: of each component as many blocks as it has samples against the others. x is its place in the
// row.
func (d *decoder) unit(x int) error {
	for i := range d.Components {
		c := &d.components[i]
		dc, ac, quant, stride := d.dc[i], d.ac[i], &d.quant[c.quant], d.strides[i]
		for k := range c.v {
			lines := d.planes[i][8*k*stride+8*c.h*x:]
			for range c.h {
				seen, err := d.read(&d.block, dc, ac, quant, &d.predictions[i])
				if err != nil {
					return err
				}
				if i < d.shown {
					transform(lines, stride, &d.block, seen)
				}
				lines = lines[8:]
			}
		}
	}
	return nil
}
