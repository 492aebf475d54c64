package fuel

// maxNamesBytes bounds the names that are kept. They only serve messages.
const maxNamesBytes = 4 << 20

// names returns the name section with the names of functions alone, under their new indices; nil when data is another
// custom section, or is damaged: names carry no meaning, so that is no error.
func (m *module) names(data []byte) []byte {
	r := &reader{data: data, what: "name section"}
	if r.name() != "name" || r.err != nil || len(data) > maxNamesBytes {
		return nil
	}
	for r.more() {
		id := r.byte()
		content := r.bytes(int(r.u32()))
		if id == 1 && r.err == nil {
			return m.functionNames(content)
		}
	}
	return nil
}

func (m *module) functionNames(data []byte) []byte {
	r := &reader{data: data, what: "name section"}
	n := r.count("names", len(m.funcs))
	entries := appendU32(nil, uint32(n))
	for next := uint32(0); n > 0 && r.err == nil; n-- {
		i := r.index("function", len(m.funcs))
		name := r.name()
		if i < next {
			return nil
		}
		next = i + 1
		entries = append(appendU32(appendU32(entries, m.shifted(i)), uint32(len(name))), name...)
	}
	if r.err != nil {
		return nil
	}
	return append(appendU32([]byte("\x04name\x01"), uint32(len(entries))), entries...)
}
