package tensorfile

import (
	"encoding/binary"
	"math"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/scalar"
	guest "github.com/edgewise-ai/edgewise/sdk/go"
)

// ReadSound reads a WAV file as steps do: 8, 16, 24 or 32 bit integers or 32 or 64 bit floats. Several channels are
// mixed into one by their mean. Errors: NotFound, Denied, Invalid, TooLarge (over MaxFileBytes); the message names the
// file.
func ReadSound(path string) (guest.Sound, error) {
	data, err := readFile("tensorfile.ReadSound", path)
	if err != nil {
		return guest.Sound{}, err
	}
	sound, err := decodeWAV(data)
	if err != nil {
		return guest.Sound{}, edgewise.Errorf("tensorfile.ReadSound", edgewise.Invalid, "%s: %w", path, err)
	}
	return sound, nil
}

// decodeWAV reads a WAV file in memory. A file has fewer samples than bytes, so MaxFileBytes bounds both.
func decodeWAV(data []byte) (guest.Sound, error) { return guest.ReadSound(data, MaxFileBytes) }

// decodeSound makes a tensor of a WAV file.
func decodeSound(data []byte, spec edgewise.Spec, _ Options) (edgewise.Tensor, error) {
	if spec.Type != edgewise.Int16 && !spec.Type.IsFloat() {
		return edgewise.Tensor{}, invalid("sound becomes FP16, BF16, FP32, FP64 or INT16")
	}
	sound, err := decodeWAV(data)
	if err != nil {
		return edgewise.Tensor{}, err
	}
	shape, err := fit(spec.Shape, int64(len(sound.Samples)))
	if err != nil {
		return edgewise.Tensor{}, err
	}
	body := make([]byte, 0, int64(len(sound.Samples))*spec.Type.Size())
	for _, s := range sound.Samples {
		if spec.Type == edgewise.Int16 {
			body = binary.LittleEndian.AppendUint16(body, uint16(int16(clamp16(s))))
			continue
		}
		body = scalar.AppendFloat(body, spec.Type, float64(s))
	}
	return edgewise.Tensor{Shape: shape, Data: body}, nil
}

func clamp16(s float32) float64 {
	return max(math.MinInt16, min(math.MaxInt16, math.Round(float64(s)*(1<<15))))
}
