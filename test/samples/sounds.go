package samples

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/edgewise-ai/edgewise"
)

// WAV makes a WAV file of n samples in each channel: of integers of 8 to 32 bits (code 1), or of floats of 32 or 64
// (code 3).
func WAV(n, rate, channels, bits, code int) []byte {
	var data []byte
	for i := range n {
		for c := range channels {
			data = appendSample(data, math.Sin(float64(i)*0.05+float64(c))*0.8, bits, code)
		}
	}
	var file bytes.Buffer
	file.WriteString("RIFF\x00\x00\x00\x00WAVELIST\x03\x00\x00\x00abc\x00fmt ")
	for _, field := range []any{
		uint32(16), uint16(code), uint16(channels), uint32(rate),
		uint32(rate * channels * bits / 8), uint16(channels * bits / 8), uint16(bits),
	} {
		_ = binary.Write(&file, binary.LittleEndian, field)
	}
	file.WriteString("data")
	_ = binary.Write(&file, binary.LittleEndian, uint32(len(data)))
	file.Write(data)
	return file.Bytes()
}

func appendSample(data []byte, v float64, bits, code int) []byte {
	switch {
	case code == 3 && bits == 64:
		return binary.LittleEndian.AppendUint64(data, math.Float64bits(v))
	case code == 3:
		return binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(v)))
	case bits == 8:
		return append(data, byte(128+v*127))
	case bits == 16:
		return binary.LittleEndian.AppendUint16(data, uint16(int16(v*32767)))
	case bits == 24:
		s := int32(v * 8388607)
		return append(data, byte(s), byte(s>>8), byte(s>>16))
	}
	return binary.LittleEndian.AppendUint32(data, uint32(int32(v*2147483647)))
}

// Speech answers as Silero's voice detection might: it hears speech in some stretches of frames, and counts on in the
// state it is given.
func Speech(request *edgewise.Request) ([]edgewise.Tensor, error) {
	var frame float32
	var state edgewise.Tensor
	for _, in := range request.Inputs {
		if in.Name == "state" {
			state = in
			frame = Values(in)[255]
		}
	}
	next := Values(state)
	next[255]++
	p := float32(0.1)
	if n := int(frame); n >= 4 && n < 16 || n >= 17 && n < 25 || n >= 32 && n < 35 || n >= 40 {
		p = 0.9
	}
	return []edgewise.Tensor{Floats("output", []float32{p}, 1, 1), Floats("stateN", next, 2, 1, 128)}, nil
}
