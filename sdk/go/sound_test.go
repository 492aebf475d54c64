package step

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"
)

const limit = 1 << 20 // samples

// wavFile makes a WAV file of the given encoding; the samples of all channels follow each other moment by moment.
func wavFile(code, channels, rate, bits int, data []byte) []byte {
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

func TestChannelsAreMixedByTheirMean(t *testing.T) {
	sound, err := ReadSound(wavFile(1, 2, 44100, 16, []byte{0, 0x40, 0, 0xc0, 0, 0x40, 0, 0, 1}), limit) // and a part of a third moment
	if err != nil {
		t.Fatal(err)
	}
	if len(sound.Samples) != 2 || sound.Samples[0] != 0 || sound.Samples[1] != 0.25 {
		t.Errorf("got %v, want 0 and 0.25", sound.Samples)
	}
}

func TestExtensibleFormatIsRead(t *testing.T) {
	file := wavFile(0xfffe, 1, 8000, 16, []byte{0, 0x40})
	at := 12 + 8 + 4 + 8
	extra := append([]byte{22, 0, 16, 0, 4, 0, 0, 0, 1, 0}, make([]byte, 14)...)
	long := append(append(append([]byte{}, file[:at+16]...), extra...), file[at+16:]...)
	binary.LittleEndian.PutUint32(long[at-4:], 40)
	sound, err := ReadSound(long, limit)
	if err != nil || len(sound.Samples) != 1 || sound.Samples[0] != 0.5 {
		t.Errorf("got %v, %v, want one sample of 0.5", sound, err)
	}
}

func TestSoundThatIsCutOffIsReadAsFarAsItGoes(t *testing.T) {
	file := wavFile(1, 1, 8000, 16, make([]byte, 100))
	sound, err := ReadSound(file[:len(file)-50], limit)
	if err != nil || len(sound.Samples) != 25 {
		t.Errorf("got %d samples, %v, want 25", len(sound.Samples), err)
	}
}

func TestNoNumbersBecomeSilence(t *testing.T) {
	data := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(math.NaN())))
	data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(math.Inf(1))))
	sound, err := ReadSound(wavFile(3, 1, 8000, 32, data), limit)
	if err != nil || sound.Samples[0] != 0 || sound.Samples[1] != 0 {
		t.Errorf("got %v, %v, want two zeros", sound.Samples, err)
	}
	sound, err = ReadSound(wavFile(3, 1, 8000, 64, binary.LittleEndian.AppendUint64(nil, math.Float64bits(-1e300))), limit)
	if err != nil || sound.Samples[0] != 0 {
		t.Errorf("got %v, %v, want a zero for what 32 bits do not hold", sound.Samples, err)
	}
}

func TestTapsOfTwoRatesAreBounded(t *testing.T) {
	for _, rates := range [][2]int{
		{MaxSampleRate - 1, 16000},
		{MaxSampleRate - 1, MinSampleRate},
		{44101, 16000},
		{MinSampleRate + 1, MaxSampleRate},
	} {
		bank, _ := filterBank(rates[0], rates[1], phasesOf(rates[0], rates[1]))
		if n := len(bank); n > 1<<18 {
			t.Errorf("from %d to %d: %d taps, want at most %d", rates[0], rates[1], n, 1<<18)
		}
	}
}

// tone is a second of a sine.
func tone(rate int, hertz float64) Sound {
	s := Sound{Rate: rate, Samples: make([]float32, rate)}
	for i := range s.Samples {
		s.Samples[i] = float32(0.5 * math.Sin(2*math.Pi*hertz*float64(i)/float64(rate)))
	}
	return s
}

func resampled(t *testing.T, s Sound, rate int) Sound {
	t.Helper()
	got, err := s.Resample(rate, limit)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestResamplingKeepsATone(t *testing.T) {
	for _, rates := range [][2]int{
		{8000, 16000},
		{22050, 16000},
		{44100, 16000},
		{48000, 16000},
		{96000, 16000},
		{16000, 44100},
		{11025, 16000},
		{44101, 16000},
	} {
		for _, hertz := range []float64{100, 1000, 3300} {
			t.Run(fmt.Sprint(rates, hertz), func(t *testing.T) {
				got := resampled(t, tone(rates[0], hertz), rates[1])
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
	got := resampled(t, tone(48000, 9500), 16000)
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
	if got := resampled(t, sound, 16000); &got.Samples[0] != &sound.Samples[0] {
		t.Error("the samples were copied")
	}
	if got := resampled(t, Sound{Rate: 8000}, 16000); got.Rate != 16000 || len(got.Samples) != 0 {
		t.Errorf("an empty sound became %v", got)
	}
}

func FuzzReadSound(f *testing.F) {
	f.Add(wavFile(1, 2, 8000, 16, []byte{1, 2, 3, 4}))
	f.Add(wavFile(3, 1, 8000, 32, []byte{1, 2, 3, 4}))
	f.Fuzz(func(t *testing.T, file []byte) {
		if sound, err := ReadSound(file, limit); err == nil && sound.Rate < MinSampleRate {
			t.Fatalf("a sound of %d samples a second", sound.Rate)
		}
	})
}
