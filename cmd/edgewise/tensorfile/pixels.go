package tensorfile

import (
	"image"

	"golang.org/x/image/draw"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/scalar"
)

// decodePicture makes a tensor of a picture.
func decodePicture(data []byte, spec edgewise.Spec, opts Options) (edgewise.Tensor, error) {
	frame, err := newFrame(spec, opts)
	if err != nil {
		return edgewise.Tensor{}, err
	}
	picture, err := DecodePicture(data)
	if err != nil {
		return edgewise.Tensor{}, err
	}
	picture, err = frame.fit(picture)
	if err != nil {
		return edgewise.Tensor{}, err
	}
	return frame.tensor(picture), nil
}

// frame is how a picture stands in a tensor: which dimension is what. -1 marks a dimension that is not there.
type frame struct {
	shape                   edgewise.Shape
	height, width, channels int // indices into shape
	t                       edgewise.DataType
	scale                   Scale
}

func newFrame(spec edgewise.Spec, opts Options) (*frame, error) {
	if spec.Type != edgewise.Uint8 && !spec.Type.IsFloat() {
		return nil, invalid("a picture becomes UINT8, FP16, BF16, FP32 or FP64")
	}
	if spec.Type == edgewise.Uint8 && opts.Scale != Raw {
		return nil, invalid("the samples of a UINT8 picture cannot be scaled to fractions")
	}
	f := &frame{shape: append(edgewise.Shape{}, spec.Shape...), t: spec.Type, scale: opts.Scale}
	rank := len(f.shape)
	if rank == 4 && (f.shape[0] == 1 || f.shape[0] == -1) {
		f.shape[0] = 1
	} else if rank != 2 && rank != 3 {
		return nil, invalid("a picture has 2 or 3 dimensions, and a batch of one beside them")
	}
	if rank == 2 {
		f.height, f.width, f.channels = 0, 1, -1
		return f, nil
	}
	if err := f.place(opts.Format); err != nil {
		return nil, err
	}
	if c := f.shape[f.channels]; c != -1 && !channels(c) {
		return nil, invalid("a picture has 1 or 3 channels, not %d", c)
	}
	return f, nil
}

// place finds the dimensions of a frame with channels.
func (f *frame) place(format edgewise.TensorFormat) error {
	first := len(f.shape) - 3
	leading, trailing := channels(f.shape[first]), channels(f.shape[first+2])
	open := format == "" || format == edgewise.FormatNone
	switch {
	case format == edgewise.FormatNHWC || (open && trailing && !leading):
		f.height, f.width, f.channels = first, first+1, first+2
	case format == edgewise.FormatNCHW || (open && leading && !trailing):
		f.channels, f.height, f.width = first, first+1, first+2
	default:
		return invalid("the shape does not say which dimension is the channels: give the format %s or %s",
			edgewise.FormatNCHW, edgewise.FormatNHWC)
	}
	return nil
}

func channels(d int64) bool { return d == 1 || d == 3 }

// fit returns the picture at the size that the frame wants, and fixes the frame's open dimensions.
func (f *frame) fit(picture *image.RGBA) (*image.RGBA, error) {
	size := picture.Rect.Size()
	if f.shape[f.height] < 0 {
		f.shape[f.height] = int64(size.Y)
	}
	if f.shape[f.width] < 0 {
		f.shape[f.width] = int64(size.X)
	}
	if f.channels >= 0 && f.shape[f.channels] < 0 {
		f.shape[f.channels] = 3
	}
	height, width := f.shape[f.height], f.shape[f.width]
	if height < 1 || width < 1 || width > MaxPixels/height {
		return nil, edgewise.Errorf("tensorfile.Read", edgewise.TooLarge,
			"a picture of %dx%d pixels: 1 to %d pixels are allowed", width, height, MaxPixels)
	}
	if int64(size.X) == width && int64(size.Y) == height {
		return picture, nil
	}
	resized := image.NewRGBA(image.Rect(0, 0, int(width), int(height)))
	draw.BiLinear.Scale(resized, resized.Rect, picture, picture.Rect, draw.Src, nil)
	return resized, nil
}

func (f *frame) tensor(picture *image.RGBA) edgewise.Tensor {
	planes := int64(1)
	if f.channels >= 0 {
		planes = f.shape[f.channels]
	}
	pixels := f.shape[f.height] * f.shape[f.width]
	data := make([]byte, 0, pixels*planes*f.t.Size())
	if f.channels > f.width {
		for at := range pixels {
			for c := range planes {
				data = f.append(data, sample(picture.Pix[4*at:], c, planes))
			}
		}
		return edgewise.Tensor{Shape: f.shape, Data: data}
	}
	for c := range planes {
		for at := range pixels {
			data = f.append(data, sample(picture.Pix[4*at:], c, planes))
		}
	}
	return edgewise.Tensor{Shape: f.shape, Data: data}
}

// sample returns channel c of a pixel, or its brightness (ITU-R BT.601, as JPEG has it) when there is one channel.
func sample(pixel []byte, c, planes int64) byte {
	if planes == 3 {
		return pixel[c]
	}
	return byte((19595*uint32(pixel[0]) + 38470*uint32(pixel[1]) + 7471*uint32(pixel[2]) + 1<<15) >> 16)
}

func (f *frame) append(data []byte, sample byte) []byte {
	switch {
	case f.t == edgewise.Uint8:
		return append(data, sample)
	case f.scale == Unit:
		return scalar.AppendFloat(data, f.t, float64(sample)/255)
	case f.scale == Signed:
		return scalar.AppendFloat(data, f.t, float64(sample)/127.5-1)
	}
	return scalar.AppendFloat(data, f.t, float64(sample))
}
