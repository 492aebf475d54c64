package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, written as an integer or with a binary unit: 1024, 64KiB, 2GiB.
type Size int64

// The units of a Size.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
	TiB Size = 1 << 40
)

var units = []struct {
	suffix string
	size   Size
}{{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"B", 1}}

// String returns the size with the largest unit that divides it, such as 64MiB, or 1000.
func (s Size) String() string {
	for _, u := range units {
		if s != 0 && s%u.size == 0 && u.size > 1 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// UnmarshalText reads digits and an optional unit out of B, KiB, MiB, GiB and TiB. Decimal units such as MB are
// refused: half of their readers take them for binary ones.
func (s *Size) UnmarshalText(text []byte) error {
	digits, unit := string(text), Size(1)
	for _, u := range units {
		if before, ok := strings.CutSuffix(digits, u.suffix); ok {
			digits, unit = strings.TrimSuffix(before, " "), u.size
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || n > math.MaxInt64/uint64(unit) {
		return fmt.Errorf("want a size such as 4096, 64KiB, 64MiB or 2GiB, got %.40q", text)
	}
	*s = Size(n) * unit
	return nil
}
