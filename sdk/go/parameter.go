//go:build wasip1

package step

import (
	"errors"
	"strconv"
)

// IntParameter returns a parameter as a whole number within low and high, fallback where it is not set.
func IntParameter(name string, fallback, low, high int64) (int64, error) {
	text, ok := Parameter(name)
	if !ok {
		return fallback, nil
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil || value < low || value > high {
		return 0, errors.New("parameter " + strconv.Quote(name) + " is " + strconv.Quote(text) + ": want a whole number from " +
			strconv.FormatInt(low, 10) + " to " + strconv.FormatInt(high, 10))
	}
	return value, nil
}

// FloatParameter returns a parameter as a number within low and high, fallback where it is not set.
func FloatParameter(name string, fallback, low, high float64) (float64, error) {
	text, ok := Parameter(name)
	if !ok {
		return fallback, nil
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || !(value >= low && value <= high) {
		return 0, errors.New("parameter " + strconv.Quote(name) + " is " + strconv.Quote(text) + ": want a number from " +
			strconv.FormatFloat(low, 'g', -1, 64) + " to " + strconv.FormatFloat(high, 'g', -1, 64))
	}
	return value, nil
}

// BoolParameter returns a parameter that is true or false, fallback where it is not set.
func BoolParameter(name string, fallback bool) (bool, error) {
	switch text, ok := Parameter(name); {
	case !ok:
		return fallback, nil
	case text == "true", text == "false":
		return text == "true", nil
	default:
		return false, errors.New("parameter " + strconv.Quote(name) + " is " + strconv.Quote(text) + ": want true or false")
	}
}
