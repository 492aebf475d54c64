package edgewise

import "sync"

// Picture is a part of a picture that is to become a row of a tensor: three planes, scaled by bilinear interpolation
// between the centres of pixels, then (value - Mean) * Scale for each channel, value being 0 to 255. Package picture
// computes it to the last bit; a GPU does the same roundings in the same order.
type Picture struct {
	Pixels        []byte // of the whole picture, from the top: rows of Stride bytes, three bytes a pixel
	Stride        int
	X, Y          int // the part's first pixel
	Width, Height int // of the part, in pixels
	Mean, Scale   [3]float32
}

// Pictures are what a tensor will be made of, one Picture for each of its rows, which have the shape [3, Height, Width]
// and are FP32 or FP16. Before
// picture.Settle, the tensor's Data has its length and no content. The pixels
// belong to whom Data belongs.
type Pictures struct {
	List          []Picture
	Width, Height int

	Made sync.Once // for picture.Settle
}
