package recordings

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/scalar"
)

const (
	hashBytes = 16 // of an element's hash that are kept
	areas     = 8  // of a blurred picture along each side, at most
	areaSide  = 8  // elements along an area, at least: a smaller picture is not blurred
	maxColors = 4  // a last dimension of at most so many holds the channels of a pixel
)

// mask returns the tensors as they may be recorded, and the names of those that are masked. What it changes is copied.
func mask(masks []admin.RecordingMask, secret []byte, list []edgewise.Tensor) (shown []edgewise.Tensor, masked []string) {
	for i := range list {
		at := slices.IndexFunc(masks, func(m admin.RecordingMask) bool { return m.Tensor == list[i].Name })
		if at < 0 {
			shown = append(shown, list[i])
			continue
		}
		masked = append(masked, list[i].Name)
		switch t := &list[i]; masks[at].How {
		case admin.MaskHash:
			shown = append(shown, hashed(secret, t))
		case admin.MaskBlur:
			if b, ok := blur(t); ok {
				shown = append(shown, b)
			}
		}
	}
	return shown, masked
}

// hashed replaces each element of type BYTES by a hash in hexadecimal digits, and any other tensor as a whole: equal
// contents have equal hashes, on one box.
func hashed(secret []byte, t *edgewise.Tensor) edgewise.Tensor {
	h := edgewise.Tensor{Name: t.Name, Type: edgewise.Bytes, Shape: edgewise.Shape{1}}
	if t.Type != edgewise.Bytes {
		h.Data = edgewise.AppendElement(nil, digest(secret, t.Data))
		return h
	}
	h.Shape = t.Shape
	for element := range edgewise.Elements(t.Data) {
		h.Data = edgewise.AppendElement(h.Data, digest(secret, element))
	}
	return h
}

func digest(secret, data []byte) string {
	sum := hmac.New(sha256.New, secret)
	sum.Write(data)
	return hex.EncodeToString(sum.Sum(nil)[:hashBytes])
}

// blur replaces each area of a picture by its mean. The picture is in the last two dimensions, or, where the last one
// holds the channels of a pixel, in the two before it. ok is false for a tensor that has no such dimensions, smaller ones
// than an area, or no numbers: it is dropped.
func blur(t *edgewise.Tensor) (b edgewise.Tensor, ok bool) {
	p, ok := pictureOf(t)
	if !ok {
		return b, false
	}
	b = *t
	b.Data = slices.Clone(t.Data)
	rows, columns := min(areas, p.height/areaSide), min(areas, p.width/areaSide)
	for plane := range p.planes {
		for y := range rows {
			for x := range columns {
				a := area{layout: p, plane: plane, top: y * p.height / rows, left: x * p.width / columns}
				a.bottom, a.right = (y+1)*p.height/rows, (x+1)*p.width/columns
				for a.channel = range p.channels {
					a.level(t.Type, b.Data)
				}
			}
		}
	}
	return b, true
}

// layout says where the pixels of a tensor are.
type layout struct{ planes, height, width, channels int }

func pictureOf(t *edgewise.Tensor) (p layout, ok bool) {
	elements, _ := t.Shape.Elements()
	if t.Type == edgewise.Bytes || t.Type == edgewise.Bool || elements == 0 {
		return p, false
	}
	rank := len(t.Shape)
	p.channels = 1
	if rank >= 3 && t.Shape[rank-1] <= maxColors {
		rank--
		p.channels = int(t.Shape[rank])
	}
	if rank < 2 {
		return p, false
	}
	p.height, p.width = int(t.Shape[rank-2]), int(t.Shape[rank-1])
	if p.height < areaSide || p.width < areaSide {
		return p, false
	}
	p.planes = int(elements) / (p.height * p.width * p.channels)
	return p, true
}

// area is a part of one channel of one plane.
type area struct {
	layout
	plane, channel, top, left, bottom, right int
}

// level replaces the elements of an area by their mean.
func (a area) level(t edgewise.DataType, data []byte) {
	sum := 0.0
	a.each(t, data, func(element []byte) { sum += scalar.Float(t, element) })
	mean := sum / float64((a.bottom-a.top)*(a.right-a.left))
	var bits []byte
	if t.IsFloat() {
		bits = scalar.AppendFloat(nil, t, mean)
	} else {
		bits = scalar.AppendBits(nil, t, uint64(int64(mean)))
	}
	a.each(t, data, func(element []byte) { copy(element, bits) })
}

func (a area) each(t edgewise.DataType, data []byte, fn func(element []byte)) {
	size := int(t.Size())
	for y := a.top; y < a.bottom; y++ {
		for x := a.left; x < a.right; x++ {
			at := (((a.plane*a.height+y)*a.width+x)*a.channels + a.channel) * size
			fn(data[at : at+size])
		}
	}
}
