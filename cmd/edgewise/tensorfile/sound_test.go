package tensorfile

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/edgewise-ai/edgewise"
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

func TestChannelsAreMixedByTheirMean(t *testing.T) {
	sound, err := DecodeSound(wav(1, 2, 44100, 16, []byte{0, 0x40, 0, 0xc0, 0, 0x40, 0, 0, 1})) // and a part of a third moment
	if err != nil {
		t.Fatal(err)
	}
	if len(sound.Samples) != 2 || sound.Samples[0] != 0 || sound.Samples[1] != 0.25 {
		t.Errorf("got %v, want 0 and 0.25", sound.Samples)
	}
	if got := sound.Seconds(); math.Abs(got-2.0/44100) > 1e-12 {
		t.Errorf("lasts %v s", got)
	}
}

func TestExtensibleFormatIsRead(t *testing.T) {
	file := wav(0xfffe, 1, 8000, 16, []byte{0, 0x40})
	at := 12 + 8 + 4 + 8
	extra := append([]byte{22, 0, 16, 0, 4, 0, 0, 0, 1, 0}, make([]byte, 14)...)
	long := append(append(append([]byte{}, file[:at+16]...), extra...), file[at+16:]...)
	binary.LittleEndian.PutUint32(long[at-4:], 40)
	sound, err := DecodeSound(long)
	if err != nil || len(sound.Samples) != 1 || sound.Samples[0] != 0.5 {
		t.Errorf("got %v, %v, want one sample of 0.5", sound, err)
	}
}

func TestSoundThatIsCutOffIsReadAsFarAsItGoes(t *testing.T) {
	file := wav(1, 1, 8000, 16, make([]byte, 100))
	sound, err := DecodeSound(file[:len(file)-50])
	if err != nil || len(sound.Samples) != 25 {
		t.Errorf("got %d samples, %v, want 25", len(sound.Samples), err)
	}
}

func TestNoNumbersBecomeSilence(t *testing.T) {
	data := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(math.NaN())))
	data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(math.Inf(1))))
	sound, err := DecodeSound(wav(3, 1, 8000, 32, data))
	if err != nil || sound.Samples[0] != 0 || sound.Samples[1] != 0 {
		t.Errorf("got %v, %v, want two zeros", sound.Samples, err)
	}
	sound, err = DecodeSound(wav(3, 1, 8000, 64, binary.LittleEndian.AppendUint64(nil, math.Float64bits(-1e300))))
	if err != nil || sound.Samples[0] != 0 {
		t.Errorf("got %v, %v, want a zero for what 32 bits do not hold", sound.Samples, err)
	}
}

func TestTapsOfTwoRatesAreBounded(t *testing.T) {
	for _, rates := range [][2]int{{MaxSampleRate - 1, 16000}, {MaxSampleRate - 1, MinSampleRate}, {44101, 16000}, {MinSampleRate + 1, MaxSampleRate}} {
		bank := newFilterBank(rates[0], rates[1])
		if n := len(bank.taps) * 2 * bank.half; n > 1<<18 {
			t.Errorf("from %d to %d: %d taps, want at most %d", rates[0], rates[1], n, 1<<18)
		}
	}
}

func TestSoundIsRefused(t *testing.T) {
	header := wav(1, 1, 8000, 16, nil)
	for _, test := range []struct {
		name, message string
		file          []byte
	}{
		{"too slow", "999 samples a second: want 1000 to 768000", wav(1, 1, MinSampleRate-1, 16, nil)},
		{"too fast", "768001 samples a second", wav(1, 1, MaxSampleRate+1, 16, nil)},
		{"no channels", "0 channels: want 1 to 64", wav(1, 0, 8000, 16, nil)},
		{"too many channels", "65 channels", wav(1, MaxChannels+1, 8000, 16, nil)},
		{"12 bits", "encoding 1 with 12 bits", wav(1, 1, 8000, 12, nil)},
		{"compressed", "encoding 2 with 4 bits", wav(2, 1, 8000, 4, nil)},
		{"no data", "has no sound in it", header[:len(header)-8]},
		{"data before format", "comes before its format", []byte("RIFF\x00\x00\x00\x00WAVEdata\x00\x00\x00\x00")},
		{"short format", "has 2 bytes: want 16", []byte("RIFF\x00\x00\x00\x00WAVEfmt \x02\x00\x00\x00ab")},
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

// tone is a second of a sine.
func tone(rate int, hertz float64) Sound {
	s := Sound{Rate: rate, Samples: make([]float32, rate)}
	for i := range s.Samples {
		s.Samples[i] = float32(0.5 * math.Sin(2*math.Pi*hertz*float64(i)/float64(rate)))
	}
	return s
}

func TestResamplingKeepsATone(t *testing.T) {
	for _, rates := range [][2]int{{8000, 16000}, {22050, 16000}, {44100, 16000}, {48000, 16000}, {96000, 16000}, {16000, 44100}, {11025, 16000}, {44101, 16000}} {
		for _, hertz := range []float64{100, 1000, 3300} {
			t.Run(fmt.Sprint(rates, hertz), func(t *testing.T) {
				got := tone(rates[0], hertz).Resample(rates[1])
				want := tone(rates[1], hertz)
				if got.Rate != rates[1] || len(got.Samples) != len(want.Samples) {
					t.Fatalf("%d samples at %d, want %d at %d", len(got.Samples), got.Rate, len(want.Samples), rates[1])
				}
				worst := 0.0
				for i := len(want.Samples) / 10; i < len(want.Samples)*9/10; i++ { // away from the ends
					worst = max(worst, math.Abs(float64(got.Samples[i]-want.Samples[i])))
				}
				if worst > 1e-3 {
					t.Errorf("off by up to %.5f of 0.5", worst)
				}
			})
		}
	}
}

func TestResamplingRemovesWhatTheLowerRateCannotCarry(t *testing.T) {
	got := tone(48000, 9500).Resample(16000)
	worst := 0.0
	for _, v := range got.Samples[len(got.Samples)/10 : len(got.Samples)*9/10] {
		worst = max(worst, math.Abs(float64(v)))
	}
	if worst > 5e-4 {
		t.Errorf("a tone of 9500 Hz leaves %.6f at 16 kHz, want it 60 dB down", worst)
	}
}

func TestResamplingToTheSameRateChangesNothing(t *testing.T) {
	sound := tone(16000, 440)
	if got := sound.Resample(16000); &got.Samples[0] != &sound.Samples[0] {
		t.Error("the samples were copied")
	}
	if got := (Sound{Rate: 8000}).Resample(16000); got.Rate != 16000 || len(got.Samples) != 0 {
		t.Errorf("an empty sound became %v", got)
	}
}

func FuzzDecodeSound(f *testing.F) {
	f.Add(wav(1, 2, 8000, 16, []byte{1, 2, 3, 4}))
	f.Add(wav(3, 1, 8000, 32, []byte{1, 2, 3, 4}))
	f.Fuzz(func(t *testing.T, file []byte) {
		if sound, err := DecodeSound(file); err == nil && sound.Rate < MinSampleRate {
			t.Fatalf("a sound of %d samples a second", sound.Rate)
		}
	})
}
