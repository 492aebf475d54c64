package fuel

import "github.com/edgewise-ai/edgewise"

func (m *module) readElements(r *reader) []byte {
	n := r.count("element segments", m.limits.Segments)
	m.segments = n
	total := 0
	var entries []byte
	for range n {
		if r.err != nil {
			return nil
		}
		flag := r.u32()
		if r.err == nil && flag > 7 {
			r.invalid("an element segment of form %d does not exist", flag)
		}
		entries = appendU32(entries, flag)
		if flag&1 == 0 { // active
			if flag&2 != 0 {
				entries = appendU32(entries, r.index("table", m.tables))
			}
			entries = m.expression(r, entries)
		}
		if flag&3 != 0 { // a kind or a type
			entries = append(entries, r.byte())
		}
		count := r.count("elements", m.limits.TableElements)
		if total += count; r.err == nil && total > m.limits.TableElements {
			r.fail(edgewise.TooLarge, "%d elements in segments: at most %d are allowed", total, m.limits.TableElements)
		}
		entries = appendU32(entries, uint32(count))
		for range count {
			if flag&4 != 0 {
				entries = m.expression(r, entries)
				continue
			}
			entries = appendU32(entries, m.shifted(r.index("function", len(m.funcs))))
		}
	}
	return recount(n, entries)
}

func (m *module) readBodies(r *reader) {
	m.code = r.base
	n := r.count("function bodies", m.limits.Functions)
	if own := len(m.funcs) - m.imported; r.err == nil && n != own {
		r.invalid("%d function bodies for %d functions", n, own)
	}
	for range n {
		size := r.u32()
		if r.err == nil && int64(size) > int64(m.limits.FunctionBytes) {
			r.fail(edgewise.TooLarge, "function %d has %d bytes of code: at most %d are allowed", m.imported+len(m.bodies), size,
				m.limits.FunctionBytes)
		}
		m.offsets = append(m.offsets, r.base+r.at)
		m.bodies = append(m.bodies, r.bytes(int(size)))
	}
}

// readData checks the segments' framing. They are kept as they are.
func (m *module) readData(r *reader) []byte {
	n := r.count("data segments", m.limits.Segments)
	if r.err == nil && m.data >= 0 && m.data != n {
		r.invalid("%d data segments, but the data count section says %d", n, m.data)
	}
	var scratch []byte
	for range n {
		if r.err != nil {
			return nil
		}
		flag := r.u32()
		if r.err == nil && flag > 2 {
			r.invalid("a data segment of form %d does not exist", flag)
		}
		if flag == 2 {
			r.index("memory", m.memories)
		}
		if flag != 1 {
			scratch = m.expression(r, scratch[:0])
		}
		r.bytes(int(r.u32()))
	}
	return r.data
}
