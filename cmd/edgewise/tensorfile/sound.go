package tensorfile

import (
	"encoding/binary"
	"math"

	"github.com/edgewise-ai/edgewise"
)

// The bounds of a WAV file's format.
const (
	MaxSampleRate = 768_000 // samples a second
	MinSampleRate = 1_000
	MaxChannels   = 64
)

// Sound is one channel of sampled sound.
type Sound struct {
	Rate    int       // samples a second
	Samples []float32 // -1..1
}

// Seconds is how long the sound lasts.
func (s Sound) Seconds() float64 { return float64(len(s.Samples)) / float64(s.Rate) }

// ReadSound reads a WAV file: 8, 16, 24 or 32 bit integers or 32 or 64 bit floats. Several channels are mixed into one
// by their mean. Errors: NotFound, Denied, Invalid, TooLarge (over MaxFileBytes); the message names the file.
func ReadSound(path string) (Sound, error) {
	data, err := readFile("tensorfile.ReadSound", path)
	if err != nil {
		return Sound{}, err
	}
	sound, err := DecodeSound(data)
	if err != nil {
		return Sound{}, edgewise.Errorf("tensorfile.ReadSound", kindOf(err), "%s: %w", path, err)
	}
	return sound, nil
}

// wavFormat is the "fmt " chunk of a WAV file.
type wavFormat struct {
	code     uint16 // 1: integers, 3: floats
	channels int
	rate     int
	bits     int
}

// DecodeSound is ReadSound for a file in memory. A data chunk that says it is longer than the file, as recorders leave
// it when they are cut off, ends with the file. Errors: Invalid.
//
// Source: Microsoft, "Multimedia Programming Interface and Data Specifications 1.0"; "Multiple channel audio data and
// WAVE files" for the extensible format.
func DecodeSound(data []byte) (Sound, error) {
	if !hasMagic(data, "RIFF????WAVE") {
		return Sound{}, invalidSound("not a WAV file")
	}
	var format *wavFormat
	for rest := data[12:]; len(rest) >= 8; {
		name, size := string(rest[:4]), int64(binary.LittleEndian.Uint32(rest[4:]))
		rest = rest[8:]
		chunk := rest[:min(size, int64(len(rest)))]
		switch name {
		case "fmt ":
			var err error
			if format, err = parseWavFormat(chunk); err != nil {
				return Sound{}, err
			}
		case "data":
			if format == nil {
				return Sound{}, invalidSound("the WAV file's sound comes before its format")
			}
			return Sound{Rate: format.rate, Samples: format.mix(chunk)}, nil
		}
		rest = rest[min(size+size%2, int64(len(rest))):]
	}
	return Sound{}, invalidSound("the WAV file has no sound in it")
}

func parseWavFormat(chunk []byte) (*wavFormat, error) {
	if len(chunk) < 16 {
		return nil, invalidSound("the WAV file's format chunk has %d bytes: want 16", len(chunk))
	}
	rate := binary.LittleEndian.Uint32(chunk[4:])
	f := &wavFormat{
		code:     binary.LittleEndian.Uint16(chunk),
		channels: int(binary.LittleEndian.Uint16(chunk[2:])),
		bits:     int(binary.LittleEndian.Uint16(chunk[14:])),
	}
	const extensible = 0xfffe
	if f.code == extensible && len(chunk) >= 26 {
		f.code = binary.LittleEndian.Uint16(chunk[24:]) // the first bytes of the sub-format's GUID
	}
	switch {
	case rate < MinSampleRate || rate > MaxSampleRate:
		return nil, invalidSound("a WAV file of %d samples a second: want %d to %d", rate, MinSampleRate, MaxSampleRate)
	case f.channels < 1 || f.channels > MaxChannels:
		return nil, invalidSound("a WAV file of %d channels: want 1 to %d", f.channels, MaxChannels)
	case f.sample() == nil:
		return nil, invalidSound("a WAV file of encoding %d with %d bits: want integers (1) of 8, 16, 24 or 32 bits or floats (3) of 32 or 64", f.code, f.bits)
	}
	f.rate = int(rate)
	return f, nil
}

// sample returns the function that reads one sample, nil for an encoding that is not read.
func (f *wavFormat) sample() func([]byte) float64 {
	switch [2]int{int(f.code), f.bits} {
	case [2]int{1, 8}:
		return func(b []byte) float64 { return (float64(b[0]) - 128) / 128 }
	case [2]int{1, 16}:
		return func(b []byte) float64 { return float64(int16(binary.LittleEndian.Uint16(b))) / (1 << 15) }
	case [2]int{1, 24}:
		return func(b []byte) float64 {
			return float64(int32(uint32(b[0])<<8|uint32(b[1])<<16|uint32(b[2])<<24)) / (1 << 31)
		}
	case [2]int{1, 32}:
		return func(b []byte) float64 { return float64(int32(binary.LittleEndian.Uint32(b))) / (1 << 31) }
	case [2]int{3, 32}:
		return func(b []byte) float64 { return finite(float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))) }
	case [2]int{3, 64}:
		return func(b []byte) float64 { return finite(math.Float64frombits(binary.LittleEndian.Uint64(b))) }
	}
	return nil
}

// finite replaces what is no number, or what 32 bits do not hold, by silence.
func finite(v float64) float64 {
	if v >= -math.MaxFloat32 && v <= math.MaxFloat32 {
		return v
	}
	return 0
}

// mix returns the mean of the channels. Samples of an incomplete last moment are left out.
func (f *wavFormat) mix(data []byte) []float32 {
	read, size := f.sample(), f.bits/8
	stride := size * f.channels
	samples := make([]float32, len(data)/stride)
	for i := range samples {
		sum := 0.0
		for c := range f.channels {
			sum += read(data[i*stride+c*size:])
		}
		samples[i] = float32(sum / float64(f.channels))
	}
	return samples
}

func invalidSound(format string, args ...any) error {
	return edgewise.Errorf("tensorfile.DecodeSound", edgewise.Invalid, format, args...)
}

// decodeSound makes a tensor of a WAV file.
func decodeSound(data []byte, spec edgewise.Spec, _ Options) (edgewise.Tensor, error) {
	if spec.Type != edgewise.Int16 && !isFloat(spec.Type) {
		return edgewise.Tensor{}, invalid("sound becomes FP16, BF16, FP32, FP64 or INT16")
	}
	sound, err := DecodeSound(data)
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
		body = appendFloat(body, spec.Type, float64(s))
	}
	return edgewise.Tensor{Shape: shape, Data: body}, nil
}

func clamp16(s float32) float64 {
	return max(math.MinInt16, min(math.MaxInt16, math.Round(float64(s)*(1<<15))))
}
