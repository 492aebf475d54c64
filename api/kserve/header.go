package kserve

import (
	"errors"
	"math"
	"strconv"
)

// HeaderLength is the name of the HTTP header that gives the length of a body's JSON part.
const HeaderLength = "Inference-Header-Content-Length"

// ParseHeaderLength reads the value of the header HeaderLength of a body of bodyLen bytes, after decompression. The
// result is between 0 and bodyLen; 0 announces a raw binary request. Errors: Invalid.
func ParseHeaderLength(value string, bodyLen int) (int, error) {
	n, err := strconv.ParseInt(value, 10, 32)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, invalid("Unable to parse %s, value is out of range [ %d, %d ], got: %s",
			HeaderLength, math.MinInt32, math.MaxInt32, short([]byte(value)))
	case err != nil:
		return 0, invalid("Unable to parse %s, got: %s", HeaderLength, short([]byte(value)))
	case n < 0 || n > int64(bodyLen):
		return 0, outOfRange(bodyLen, int(n))
	}
	return int(n), nil
}

func outOfRange(bodyLen, jsonSize int) error {
	return invalid("inference header size should be in range (0, %d), got: %d", bodyLen, jsonSize)
}
