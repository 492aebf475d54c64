//go:build wasip1

package step

import (
	"errors"
	"unsafe"
)

// ImageInfo is what the header of a picture's file says.
type ImageInfo struct {
	Width, Height, Channels uint32
	Format                  uint32 // 1 JPEG, 2 PNG, 3 WebP
}

// Letterbox says where a letterboxed picture lies: x in it is x in the source times ScaleX plus PadX.
type Letterbox struct{ ScaleX, ScaleY, PadX, PadY float32 }

// Mode is how pictures are resized.
type Mode uint32

// The modes.
const (
	Nearest Mode = iota
	Bilinear
	Area
)

// Layout is how NormalizeImage writes its result.
type Layout uint32

// The layouts. They may be combined.
const (
	Planar          Layout = 0
	Interleaved     Layout = 1
	ReverseChannels Layout = 2
)

const orient = 1 // flag: as the EXIF orientation says

var (
	errBuffer = errors.New("a slice is shorter than the sizes beside it say")
	errKernel = errors.New("a kernel failed without a reason")
)

func pointer[E any](s []E) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }

func result(n int32) error {
	if n >= 0 {
		return nil
	}
	if err := LastError(); err != nil {
		return err
	}
	return errKernel
}

// long tells whether s has at least the product of sizes elements.
func long[E any](s []E, sizes ...int) bool {
	n := uint64(1)
	for _, size := range sizes {
		if size < 0 || size > 1<<31 || n > 1<<31 {
			return false
		}
		n *= uint64(size)
	}
	return uint64(len(s)) >= n
}

// ReadImageInfo reads the header of a picture's file; sizes are those after the EXIF orientation.
func ReadImageInfo(file []byte) (ImageInfo, error) {
	var info ImageInfo
	err := result(imageInfo(pointer(file), uint32(len(file)), orient, unsafe.Pointer(&info)))
	return info, err
}

// DecodeImage decodes a picture's file into interleaved pixels of 1, 3 or 4 channels, turned upright.
func DecodeImage(file []byte, channels int) (pixels []byte, info ImageInfo, err error) {
	if info, err = ReadImageInfo(file); err != nil {
		return nil, info, err
	}
	pixels = make([]byte, int(info.Width)*int(info.Height)*channels)
	err = result(imageDecode(pointer(file), uint32(len(file)), orient, uint32(channels), pointer(pixels), uint32(len(pixels))))
	return pixels, info, err
}

// ResizeImage resizes interleaved pixels.
func ResizeImage(src []byte, srcW, srcH int, dst []byte, dstW, dstH, channels int, mode Mode) error {
	if !long(src, srcW, srcH, channels) || !long(dst, dstW, dstH, channels) {
		return errBuffer
	}
	return result(imageResize(pointer(src), uint32(srcW), uint32(srcH), pointer(dst), uint32(dstW), uint32(dstH),
		uint32(channels), uint32(mode)))
}

// LetterboxImage fits interleaved pixels into dst, keeping their proportions, and fills the rest with fill.
func LetterboxImage(src []byte, srcW, srcH int, dst []byte, dstW, dstH, channels int, mode Mode, fill byte) (Letterbox, error) {
	var l Letterbox
	if !long(src, srcW, srcH, channels) || !long(dst, dstW, dstH, channels) {
		return l, errBuffer
	}
	err := result(imageLetterbox(pointer(src), uint32(srcW), uint32(srcH), pointer(dst), uint32(dstW), uint32(dstH),
		uint32(channels), uint32(mode), uint32(fill), unsafe.Pointer(&l)))
	return l, err
}

// NormalizeImage writes (x - mean) * scale for each channel of interleaved pixels; nil stands for all 0 and all 1.
func NormalizeImage(src []byte, w, h, channels int, dst []float32, layout Layout, mean, scale []float32) error {
	if !long(src, w, h, channels) || !long(dst, w, h, channels) || mean != nil && !long(mean, channels) || scale != nil &&
		!long(scale, channels) {
		return errBuffer
	}
	return result(imageNormalize(pointer(src), uint32(w), uint32(h), uint32(channels), pointer(dst), uint32(FP32),
		uint32(layout), pointer(mean), pointer(scale)))
}

// Softmax turns each row of cols values into probabilities. dst may be src.
func Softmax(src, dst []float32, cols int) error {
	if cols <= 0 || len(src)%cols != 0 || len(dst) < len(src) {
		return errBuffer
	}
	return result(softmax(pointer(src), pointer(dst), uint32(len(src)/cols), uint32(cols)))
}

// TopK returns the k largest values of each row of cols, in falling order, and where in the row they are.
func TopK(src []float32, cols, k int) (values []float32, indices []int32, err error) {
	if cols <= 0 || len(src)%cols != 0 || k < 0 || k > cols {
		return nil, nil, errBuffer
	}
	rows := len(src) / cols
	values, indices = make([]float32, rows*k), make([]int32, rows*k)
	err = result(topK(pointer(src), uint32(rows), uint32(cols), uint32(k), pointer(values), pointer(indices)))
	return values, indices, err
}

// NMS returns which boxes (x1, y1, x2, y2 each) to keep, the highest score first: those of at least score that overlap
// no kept box of their class by more than iou. Without classes there is one. At most limit are returned.
func NMS(boxes, scores []float32, classes []int32, iou, score float32, limit int) ([]int32, error) {
	if !long(boxes, len(scores), 4) || classes != nil && len(classes) < len(scores) || limit < 0 {
		return nil, errBuffer
	}
	kept := make([]int32, limit)
	n := nms(pointer(boxes), pointer(scores), pointer(classes), uint32(len(scores)), iou, score, pointer(kept), uint32(limit))
	return kept[:max(0, n)], result(n)
}

//go:wasmimport edgewise_v1 image_info
func imageInfo(src unsafe.Pointer, size, flags uint32, dst unsafe.Pointer) int32

//go:wasmimport edgewise_v1 image_decode
func imageDecode(src unsafe.Pointer, size, flags, channels uint32, dst unsafe.Pointer, room uint32) int32

//go:wasmimport edgewise_v1 image_resize
func imageResize(src unsafe.Pointer, srcW, srcH uint32, dst unsafe.Pointer, dstW, dstH, channels, mode uint32) int32

//go:wasmimport edgewise_v1 image_letterbox
func imageLetterbox(src unsafe.Pointer, srcW, srcH uint32, dst unsafe.Pointer, dstW, dstH, channels, mode, fill uint32,
	l unsafe.Pointer) int32

//go:wasmimport edgewise_v1 image_normalize
func imageNormalize(src unsafe.Pointer, w, h, channels uint32, dst unsafe.Pointer, dtype, flags uint32, mean, scale unsafe.Pointer) int32

//go:wasmimport edgewise_v1 softmax
func softmax(src, dst unsafe.Pointer, rows, cols uint32) int32

//go:wasmimport edgewise_v1 top_k
func topK(src unsafe.Pointer, rows, cols, k uint32, values, indices unsafe.Pointer) int32

//go:wasmimport edgewise_v1 nms
func nms(boxes, scores, classes unsafe.Pointer, count uint32, iou, score float32, dst unsafe.Pointer, limit uint32) int32
