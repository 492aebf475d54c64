package host

import (
	"path/filepath"
	"strconv"
	"strings"
)

// Temperature returns the temperature of the hottest zone of the machine, in degrees Celsius; ok is false where none is
// told.
func Temperature(root string) (celsius float64, ok bool) {
	files, _ := filepath.Glob(filepath.Join(root, "sys/class/thermal/thermal_zone*/temp"))
	for _, file := range files {
		n, err := strconv.ParseFloat(strings.TrimSpace(read(filepath.Dir(file), filepath.Base(file))), 64)
		if err != nil || n <= -273_000 {
			continue // a zone that is off has an error, or no value that can be
		}
		if c := n / 1000; !ok || c > celsius {
			celsius, ok = c, true
		}
	}
	return celsius, ok
}
