package step

import (
	"errors"
	"math"
	"strconv"
)

// The bounds of a sound's format.
const (
	MinSampleRate = 1000 // samples a second
	MaxSampleRate = 768000
	MaxChannels   = 64
)

// Sound is one channel of samples from -1 to 1.
type Sound struct {
	Rate    int // samples a second
	Samples []float32
}

// wav is the fmt chunk of a WAV file; code is 1 for integers, 3 for floats, 0 before there is one.
type wav struct{ code, channels, rate, bits int }

func u16le(p []byte) int { return int(p[0]) | int(p[1])<<8 }
func u32le(p []byte) int { return u16le(p) | u16le(p[2:])<<16 }

// ReadSound reads a WAV file: integers of 8, 16, 24 or 32 bits or floats of 32 or 64. Channels are mixed into one by
// their mean. A chunk that says it is longer than the file, as recorders leave it when they are cut off, ends with the
// file. limit is the most samples, of four bytes each, that it may make: what the step's memory holds.
func ReadSound(file []byte, limit int) (Sound, error) {
	if len(file) < 12 || string(file[:4]) != "RIFF" || string(file[8:12]) != "WAVE" {
		return Sound{}, errors.New("the sound is not a WAV file")
	}
	var format wav
	for rest := file[12:]; len(rest) >= 8; {
		name, size := string(rest[:4]), u32le(rest[4:])
		rest = rest[8:]
		body := rest[:min(size, len(rest))]
		switch name {
		case "fmt ":
			if err := format.read(body); err != nil {
				return Sound{}, err
			}
		case "data":
			if format.code == 0 {
				return Sound{}, errors.New("the sound's samples come before its format")
			}
			return format.samples(body, limit)
		}
		rest = rest[min(size+size&1, len(rest)):]
	}
	return Sound{}, errors.New("the sound has no samples: want a WAV file with a fmt and a data chunk")
}

func (w *wav) read(body []byte) error {
	if len(body) < 16 {
		return errors.New("the sound's format has " + strconv.Itoa(len(body)) + " bytes: want at least 16")
	}
	*w = wav{u16le(body), u16le(body[2:]), u32le(body[4:]), u16le(body[14:])}
	if w.code == 0xFFFE && len(body) >= 26 {
		w.code = u16le(body[24:]) // WAVE_FORMAT_EXTENSIBLE: the sub-format
	}
	if err := checkRate("the sound has", w.rate); err != nil {
		return err
	}
	if w.channels < 1 || w.channels > MaxChannels {
		return errors.New("the sound has " + strconv.Itoa(w.channels) + " channels: want 1 to " + strconv.Itoa(MaxChannels))
	}
	switch [2]int{w.code, w.bits} {
	case [2]int{1, 8}, [2]int{1, 16}, [2]int{1, 24}, [2]int{1, 32}, [2]int{3, 32}, [2]int{3, 64}:
		return nil
	}
	return errors.New("the sound has encoding " + strconv.Itoa(w.code) + " with " + strconv.Itoa(w.bits) +
		" bits: want integers (1) of 8, 16, 24 or 32 bits or floats (3) of 32 or 64")
}

func checkRate(what string, rate int) error {
	if rate >= MinSampleRate && rate <= MaxSampleRate {
		return nil
	}
	return errors.New(what + " " + strconv.Itoa(rate) + " samples a second: want " + strconv.Itoa(MinSampleRate) + " to " +
		strconv.Itoa(MaxSampleRate))
}

func tooLong(what string, limit int) error {
	return errors.New(what + ": at most " + strconv.Itoa(limit) + " are taken")
}

// samples returns the mean of the channels. What is left of an incomplete last sample is left out.
func (w *wav) samples(body []byte, limit int) (Sound, error) {
	step := w.bits / 8
	all := step * w.channels
	count := len(body) / all
	if count > limit {
		return Sound{}, tooLong("the sound has "+strconv.Itoa(count)+" samples", limit)
	}
	sound := Sound{Rate: w.rate, Samples: make([]float32, count)}
	for i := range sound.Samples {
		sum := 0.0
		for c := range w.channels {
			sum += w.sample(body[i*all+c*step:])
		}
		sound.Samples[i] = float32(sum / float64(w.channels))
	}
	return sound, nil
}

// sample is one sample. A float that is no number, or that 32 bits do not hold, is silence.
func (w *wav) sample(p []byte) float64 {
	var v float64
	switch {
	case w.code == 3 && w.bits == 32:
		v = float64(math.Float32frombits(uint32(u32le(p))))
	case w.code == 3:
		v = math.Float64frombits(uint64(u32le(p)) | uint64(u32le(p[4:]))<<32)
	case w.bits == 8:
		return (float64(p[0]) - 128) / 128
	case w.bits == 16:
		return float64(int16(u16le(p))) / (1 << 15)
	case w.bits == 24:
		return float64(int32(uint32(u16le(p))<<8|uint32(p[2])<<24)) / (1 << 31)
	default:
		return float64(int32(u32le(p))) / (1 << 31)
	}
	if v >= -math.MaxFloat32 && v <= math.MaxFloat32 {
		return v
	}
	return 0
}

// Frames returns frames of width samples, one every hop samples, of a sound with before and after samples of silence
// around it: as many whole ones as there are, behind one another. All of them have at most limit samples.
func (s Sound) Frames(width, hop, before, after, limit int) ([]float32, error) {
	if width < 1 || hop < 1 {
		return nil, errors.New("frames of " + strconv.Itoa(width) + " samples, one every " + strconv.Itoa(hop) + ": want 1 or more")
	}
	if before < 0 || after < 0 || before > math.MaxUint32 || after > math.MaxUint32 {
		return nil, errors.New("silence of " + strconv.Itoa(before) + " and " + strconv.Itoa(after) + " samples: want 0 to 4294967295")
	}
	frames, all := 0, before+len(s.Samples)+after
	if all >= width {
		frames = 1 + (all-width)/hop
	}
	if frames > limit/width {
		return nil, errors.New(strconv.Itoa(frames) + " frames of " + strconv.Itoa(width) + " samples: at most " +
			strconv.Itoa(limit) + " samples are taken")
	}
	to := make([]float32, frames*width)
	for i := range frames {
		from := i*hop - before
		low, high := max(0, -from), min(width, len(s.Samples)-from)
		if low < high {
			copy(to[i*width+low:i*width+high], s.Samples[from+low:])
		}
	}
	return to, nil
}
