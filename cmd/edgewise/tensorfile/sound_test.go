package tensorfile

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/edgewise-ai/edgewise"
	guest "github.com/edgewise-ai/edgewise/sdk/go"
)

// wav makes a WAV file of the given encoding; the samples of all channels follow each other moment by moment.
func wav(code, channels, rate, bits int, data []byte) []byte {
	file := []byte("RIFF\x00\x00\x00\x00WAVELIST\x03\x00\x00\x00abc\x00fmt \x10\x00\x00\x00")
	file = binary.LittleEndian.AppendUint16(file, uint16(code))
	file = binary.LittleEndian.AppendUint16(file, uint16(channels))
	file = binary.LittleEndian.AppendUint32(file, uint32(rate))
	file = binary.LittleEndian.AppendUint32(file, uint32(rate*channels*bits/8))
	file = binary.LittleEndian.AppendUint16(file, uint16(channels*bits/8))
	file = binary.LittleEndian.AppendUint16(file, uint16(bits))
	file = binary.LittleEndian.AppendUint32(append(file, "data"...), uint32(len(data)))
	return append(file, data...)
}

func TestSoundOfEveryEncodingIsRead(t *testing.T) {
	half32, half64 := make([]byte, 4), make([]byte, 8)
	binary.LittleEndian.PutUint32(half32, math.Float32bits(-0.5))
	binary.LittleEndian.PutUint64(half64, math.Float64bits(-0.5))
	for _, test := range []struct {
		code, bits int
		data       []byte
	}{
		{1, 8, []byte{64}},
		{1, 16, []byte{0, 0xc0}},
		{1, 24, []byte{0, 0, 0xc0}},
		{1, 32, []byte{0, 0, 0, 0xc0}},
		{3, 32, half32},
		{3, 64, half64},
	} {
		t.Run(fmt.Sprint(test.code, test.bits), func(t *testing.T) {
			sound, err := ReadSound(write(t, "x.wav", wav(test.code, 1, 16000, test.bits, test.data)))
			if err != nil {
				t.Fatal(err)
			}
			if sound.Rate != 16000 || len(sound.Samples) != 1 || sound.Samples[0] != -0.5 {
				t.Errorf("got %v, want one sample of -0.5 at 16000", sound)
			}
		})
	}
}

func TestSoundIsRefused(t *testing.T) {
	header := wav(1, 1, 8000, 16, nil)
	for _, test := range []struct {
		name, message string
		file          []byte
	}{
		{"too slow", "999 samples a second: want 1000 to 768000", wav(1, 1, guest.MinSampleRate-1, 16, nil)},
		{"too fast", "768001 samples a second", wav(1, 1, guest.MaxSampleRate+1, 16, nil)},
		{"no channels", "0 channels: want 1 to 64", wav(1, 0, 8000, 16, nil)},
		{"too many channels", "65 channels", wav(1, guest.MaxChannels+1, 8000, 16, nil)},
		{"12 bits", "encoding 1 with 12 bits", wav(1, 1, 8000, 12, nil)},
		{"compressed", "encoding 2 with 4 bits", wav(2, 1, 8000, 4, nil)},
		{"no data", "has no samples", header[:len(header)-8]},
		{"data before format", "samples come before its format", []byte("RIFF\x00\x00\x00\x00WAVEdata\x00\x00\x00\x00")},
		{"short format", "has 2 bytes: want at least 16", []byte("RIFF\x00\x00\x00\x00WAVEfmt \x02\x00\x00\x00ab")},
		{"other", "not a WAV file", []byte("OggS")},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := write(t, "x.wav", test.file)
			_, err := ReadSound(path)
			wantError(t, err, edgewise.Invalid, path, test.message)
		})
	}
}

func TestSoundBecomesATensor(t *testing.T) {
	path := write(t, "x.wav", wav(1, 1, 8000, 16, []byte{0, 0x40, 0, 0x80}))
	got, err := Read(path, edgewise.Spec{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{-1, -1}}, Options{})
	if err != nil || !got.Shape.Equal(edgewise.Shape{1, 2}) || element(got, 0) != 0.5 || element(got, 1) != -1 {
		t.Errorf("got %v, %v, want [1,2] of 0.5 and -1", got, err)
	}
	got, err = Read(path, edgewise.Spec{Name: "x", Type: edgewise.Int16, Shape: edgewise.Shape{2}}, Options{})
	if err != nil || string(got.Data) != "\x00\x40\x00\x80" {
		t.Errorf("got %v, %v, want the samples unchanged", got, err)
	}
	_, err = Read(path, edgewise.Spec{Name: "x", Type: edgewise.Int32, Shape: edgewise.Shape{2}}, Options{})
	wantError(t, err, edgewise.Invalid, path, "sound becomes")
	_, err = Read(path, edgewise.Spec{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{3}}, Options{})
	wantError(t, err, edgewise.Invalid, path, "the file has 2 elements")
}
