package onnxfile

import (
	"path"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// External says which bytes of which file of the same folder hold the elements of an initializer. Read has checked that
// the file is a regular one and that the bytes are in it.
type External struct {
	Path   string // relative to dir, as Read was given it
	Offset int64  // bytes
	Length int64  // bytes; what the initializer's type and shape take
}

// reference is external_data as it stands in the file.
type reference struct {
	given                              bool
	location, offset, length, checksum *string
}

// externalEntry reads one key and value. Other keys than the four of the specification are refused: the runtime knows
// more, and reads from the places they name.
func (w *walker) externalEntry(end int64, r *reference) error {
	key, value, err := w.entry(end, w.Limits.Name)
	if err != nil {
		return err
	}
	var into **string
	switch key {
	case "location":
		into = &r.location
	case "offset":
		into = &r.offset
	case "length":
		into = &r.length
	case "checksum":
		into = &r.checksum
	default:
		return unsupported("external data has the key %.64q: want location, offset, length or checksum", key)
	}
	if *into != nil {
		return invalid("external data has the key %q twice", key)
	}
	r.given, *into = true, &value
	return nil
}

// entry reads a StringStringEntryProto. It is not counted as kept.
func (w *walker) entry(end int64, limit int) (key, value string, err error) {
	err = w.each(&entryMessage, end, func(f field) (err error) {
		switch f.number {
		case 1:
			key, err = w.text(f, w.Limits.Name, "key")
		case 2:
			value, err = w.text(f, limit, "value")
		}
		return within(err, "entry %.64q", key)
	})
	return key, value, err
}

// external checks that a tensor of size bytes may be where it says it is, and that its file has that many.
func (w *walker) external(t *tensor, size int64, inside string) error {
	switch {
	case inside != "":
		return unsupported("its data is in another file: that is not allowed in a %s", inside)
	case !t.external:
		return invalid("external data is given, but data_location does not say so")
	case t.raw > 0 || t.entries != [dataFields]int64{}:
		return invalid("its elements are given twice, in the file and in another one")
	case t.element.data == stringData:
		return unsupported("strings cannot be stored in another file")
	}
	if err := count(&w.externalTotal, w.ExternalData, "tensors in other files"); err != nil {
		return err
	}
	location, err := t.where.path()
	if err != nil {
		return err
	}
	offset, err := decimal(t.where.offset, "offset", 0)
	if err != nil {
		return err
	}
	length, err := decimal(t.where.length, "length", size)
	if err != nil {
		return err
	}
	if length != size {
		return invalid("external data: length %d, but %s%v takes %d bytes", length, t.element.typeName(), t.dims, size)
	}
	if err := w.locate(location, offset, length); err != nil {
		return err
	}
	t.at = &External{Path: path.Join(w.base, location), Offset: offset, Length: length}
	return nil
}

// locate checks that length bytes at offset are in the file at location, beside the model file.
func (w *walker) locate(location string, offset, length int64) error {
	have, ok := w.sizes[location]
	if !ok {
		var err error
		if have, err = w.stat(path.Join(w.base, location)); err != nil {
			return within(err, "external data")
		}
		if err := w.keep(location); err != nil {
			return err
		}
		w.sizes[location] = have
	}
	if offset > have || length > have-offset {
		return invalid("external data: %d bytes at offset %d are not in file %.64q, which has %d", length, offset, location,
			have)
	}
	return nil
}

// path returns the location when it names a file of the same folder.
func (r *reference) path() (string, error) {
	if r.location == nil || *r.location == "" {
		return "", invalid("external data has no location")
	}
	p := *r.location
	if strings.Contains(p, "*") {
		return "", invalid("external data: location %.64q: '*' marks an address in memory and is not allowed", p)
	}
	if err := edgewise.CheckPath(p); err != nil {
		return "", invalid("external data: location: %w", err)
	}
	return p, nil
}

// decimal reads a number of external_data, which may be left out.
func decimal(text *string, what string, otherwise int64) (int64, error) {
	if text == nil {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(*text, 10, 64)
	if err != nil || strings.Trim(*text, "0123456789") != "" {
		return 0, invalid("external data: %s %.64q: want a decimal number of bytes below 2^63", what, *text)
	}
	return n, nil
}
