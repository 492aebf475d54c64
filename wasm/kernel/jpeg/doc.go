// Package jpeg reads the JPEG files that cameras and programs mostly write: sequential coding with Huffman tables, 8
// bits, grey or YCbCr, in one scan. It writes pixels straight into the caller's rows, a row of blocks at a time; of the
// picture it keeps nothing else. All other files, and those with any oddity before their pixels, are [ErrOther]: they
// are for package image/jpeg.
//
// What it decodes is what image/jpeg decodes: each sample of a component differs by at most 1, where the file's
// coefficients are such as an encoder makes of a picture; colours are those of package image/color, and a sample of a
// smaller component stands for all pixels it covers.
package jpeg

import "errors"

// ErrOther says that a file is not one that this package reads.
var ErrOther = errors.New("jpeg: a file of another kind")

// errData says that a file's pixels cannot be decoded. Like every error of image/jpeg, it is about the file alone.
var (
	errShort = errors.New("invalid JPEG data: it ends too early")
	errCode  = errors.New("invalid JPEG data: a Huffman code that the file does not define")
	errOrder = errors.New("invalid JPEG data: a restart marker is missing")
)
