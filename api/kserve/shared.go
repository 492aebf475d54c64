package kserve

import "math"

// parameter reads one of the parameters that put a tensor into shared memory. known tells whether name is one of them.
func (p *Place) parameter(c *tensors, seen *members, name []byte) (known bool, err error) {
	switch string(name) {
	case "shared_memory_region":
		if err := seen.once(hasRegion, "shared_memory_region"); err != nil {
			return true, err
		}
		text, err := c.string("shared_memory_region", c.lim.MaxName)
		p.Region = string(text)
		return true, err
	case "shared_memory_byte_size":
		p.Size, err = c.bytes(seen, hasRegionSize, "shared_memory_byte_size")
	case "shared_memory_offset":
		p.Offset, err = c.bytes(seen, hasRegionOffset, "shared_memory_offset")
	default:
		return false, nil
	}
	return true, err
}

func (c *tensors) bytes(seen *members, bit members, name string) (int64, error) {
	if err := seen.once(bit, name); err != nil {
		return 0, err
	}
	n, err := c.cursor.count(name)
	return int64(min(n, math.MaxInt64)), err
}

// check holds what was read of a tensor's place together.
func (p *Place) check(what, name string, seen members) error {
	switch {
	case seen&hasRegion == 0:
		return nil
	case p.Region == "":
		return tensorMessage(name, "Unable to parse 'shared_memory_region': %s '%s' names none", what, name)
	case seen&hasRegionSize == 0:
		return tensorMessage(name, "Unable to parse 'shared_memory_byte_size': %s '%s' has none", what, name)
	}
	return nil
}
