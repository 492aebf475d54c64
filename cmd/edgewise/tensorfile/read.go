package tensorfile

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/npy"
)

// MaxFileBytes bounds a file that Read, ReadPicture and ReadSound accept.
const MaxFileBytes = 1 << 30

// Scale says which range the samples 0..255 of a picture are mapped to in a floating point tensor.
type Scale uint8

// The scales.
const (
	Raw    Scale = iota // 0..255 as they are; the only one for integer tensors
	Unit                // 0..1
	Signed              // -1..1
)

// ParseScale reads "raw", "unit" or "signed".
func ParseScale(name string) (Scale, error) {
	for i, known := range []string{"raw", "unit", "signed"} {
		if name == known {
			return Scale(i), nil
		}
	}
	return Raw, edgewise.Errorf("tensorfile.ParseScale", edgewise.Invalid, "scale %q: want raw (0..255), unit (0..1) or signed (-1..1)", name)
}

// Options adjust how a file becomes a tensor. The zero value is right for most models.
type Options struct {
	// Format is the layout of a picture. FormatNone derives it from the shape: the dimension of 1 or 3 is the channels.
	Format edgewise.TensorFormat
	// Scale is the range of a picture's samples.
	Scale Scale
}

// Read makes the tensor that spec describes from the file at path. The extension decides how:
//
//   - .npy: type and shape of the array must be those of spec; strings (S and U) become BYTES, bit patterns of two
//     bytes (V2) become BF16.
//   - .json: nested arrays, whose nesting is the shape, or one flat array, whose shape is that of spec.
//   - .bin, .raw: the little-endian elements, row after row.
//   - .png .jpg .jpeg .gif .webp .bmp .tif .tiff: resized to the height and width of spec, or left as large as it is
//     where spec says -1. Channels are R, G, B, or grey where spec has one channel.
//   - .wav: all channels mixed into one, as FP32 in -1..1 or as INT16, at the rate of the file.
//
// A BYTES input takes a .bin, picture or .wav file unread, as one element. A missing batch dimension of size one is
// added. The tensor's bytes belong to the caller. Errors: NotFound, Denied, Invalid, TooLarge; the message names the
// file.
func Read(path string, spec edgewise.Spec, opts Options) (edgewise.Tensor, error) {
	decode, err := decoder(path, spec)
	if err != nil {
		return edgewise.Tensor{}, err
	}
	data, err := readFile("tensorfile.Read", path)
	if err != nil {
		return edgewise.Tensor{}, err
	}
	tensor, err := decode(data, spec, opts)
	if err == nil {
		tensor.Name, tensor.Type = spec.Name, spec.Type
		err = tensor.Check()
	}
	if err == nil && !spec.Shape.Accepts(tensor.Shape) {
		err = invalid("the shape is %v", tensor.Shape)
	}
	if err != nil {
		return edgewise.Tensor{}, edgewise.Errorf("tensorfile.Read", kindOf(err), "%s: input %q wants %v%v: %w", path,
			spec.Name, spec.Type, spec.Shape, err)
	}
	return tensor, nil
}

type decodeFunc func(data []byte, spec edgewise.Spec, opts Options) (edgewise.Tensor, error)

func decoder(path string, spec edgewise.Spec) (decodeFunc, error) {
	ext := strings.ToLower(filepath.Ext(path))
	switch ext {
	case ".npy":
		return decodeNpy, nil
	case ".json":
		return decodeJSON, nil
	}
	if spec.Type == edgewise.Bytes {
		return decodeWhole, nil
	}
	switch ext {
	case ".bin", ".raw":
		return decodeRaw, nil
	case ".wav":
		return decodeSound, nil
	case ".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff":
		return decodePicture, nil
	}
	return nil, edgewise.Errorf("tensorfile.Read", edgewise.Invalid,
		"%s: cannot tell what is in it: want a name that ends in .npy, .json, .bin, .raw, .wav, .png, .jpg, .jpeg, .gif, "+
			".webp, .bmp, .tif or .tiff", path)
}

// decodeRaw takes the bytes as they are.
func decodeRaw(data []byte, spec edgewise.Spec, _ Options) (edgewise.Tensor, error) {
	size := spec.Type.Size()
	if size == 0 {
		return edgewise.Tensor{}, invalid("type %v has no raw form", spec.Type)
	}
	if int64(len(data))%size != 0 {
		return edgewise.Tensor{}, invalid("%d bytes are not a whole number of %d-byte elements", len(data), size)
	}
	shape, err := fit(spec.Shape, int64(len(data))/size)
	return edgewise.Tensor{Shape: shape, Data: data}, err
}

// decodeWhole takes the file as the only element of a BYTES tensor.
func decodeWhole(data []byte, spec edgewise.Spec, _ Options) (edgewise.Tensor, error) {
	shape, err := fit(spec.Shape, 1)
	if err != nil {
		return edgewise.Tensor{}, err
	}
	framed := make([]byte, 0, len(data)+4)
	return edgewise.Tensor{Shape: shape, Data: edgewise.AppendElement(framed, string(data))}, nil
}

// fit returns the shape that n elements in a row take in want. One dimension of -1 takes what is left; a leading -1
// beside it is a batch of one.
func fit(want edgewise.Shape, n int64) (edgewise.Shape, error) {
	shape, open := append(edgewise.Shape{}, want...), -1
	rest := int64(1)
	for i, d := range want {
		switch {
		case d >= 0:
			if d > 0 && rest > math.MaxInt64/d {
				return nil, invalid("the shape %v is too large", want)
			}
			rest *= d
		case open < 0:
			open = i
		case open == 0:
			shape[0], open = 1, i
		default:
			return nil, invalid("%d elements in a row do not say how large each -1 of the shape is", n)
		}
	}
	if open < 0 && rest == n {
		return shape, nil
	}
	if open < 0 || rest == 0 || n%rest != 0 {
		return nil, invalid("the file has %d elements", n)
	}
	shape[open] = n / rest
	return shape, nil
}

// decodeNpy reads a NumPy array.
func decodeNpy(data []byte, spec edgewise.Spec, _ Options) (edgewise.Tensor, error) {
	t, err := npy.Decode(data, spec.Type, MaxFileBytes/4)
	if batched := append(edgewise.Shape{1}, t.Shape...); !spec.Shape.Accepts(t.Shape) && spec.Shape.Accepts(batched) {
		t.Shape = batched
	}
	return t, err
}

// readFile returns the content of a file of at most MaxFileBytes.
func readFile(op, path string) ([]byte, error) {
	return readBounded(op, path, MaxFileBytes)
}

func readBounded(op, path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fileError(op, path, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fileError(op, path, err)
	}
	if info.IsDir() {
		return nil, edgewise.Errorf(op, edgewise.Invalid, "%s is a folder: want a file", path)
	}
	if info.Size() > limit {
		return nil, edgewise.Errorf(op, edgewise.TooLarge, "%s has %d bytes: at most %d are allowed", path, info.Size(), limit)
	}
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, fileError(op, path, err)
	}
	if int64(len(data)) > limit {
		return nil, edgewise.Errorf(op, edgewise.TooLarge, "%s has more than the %d bytes that are allowed", path, limit)
	}
	return data, nil
}

func fileError(op, path string, err error) error {
	var reason *fs.PathError
	if errors.As(err, &reason) {
		err = reason.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return edgewise.Errorf(op, edgewise.NotFound, "%s: %w", path, err)
	case errors.Is(err, fs.ErrPermission):
		return edgewise.Errorf(op, edgewise.Denied, "%s: %w", path, err)
	}
	return edgewise.Errorf(op, edgewise.Internal, "%s: %w", path, err)
}

// invalid is an error about the content of a file; the caller adds the file's name.
func invalid(format string, args ...any) error {
	return edgewise.Errorf("tensorfile.Read", edgewise.Invalid, format, args...)
}

// kindOf is edgewise.KindOf, except that an error of a foreign decoder is the file's fault.
func kindOf(err error) edgewise.Kind {
	var classified *edgewise.Error
	if errors.As(err, &classified) {
		return classified.Kind
	}
	return edgewise.Invalid
}
