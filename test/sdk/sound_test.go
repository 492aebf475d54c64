package sdk

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/edgewise-ai/edgewise"
	guest "github.com/edgewise-ai/edgewise/sdk/go"
	"github.com/edgewise-ai/edgewise/test/samples"
)

func TestSoundIsCutIntoFrames(t *testing.T) {
	l := gallery(t, "sound_frames", nil)
	for _, tt := range []struct {
		name                 string
		n, channels, bits, f int
	}{
		{"8 bits", 1000, 1, 8, 1},
		{"16 bits", 1024, 1, 16, 1},
		{"24 bits, stereo", 1025, 2, 24, 1},
		{"32 bits", 513, 1, 32, 1},
		{"floats, 3 channels", 511, 3, 32, 3},
		{"long floats", 700, 1, 64, 3},
		{"nothing", 0, 1, 16, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := wavFile(tt.n, 16000, tt.channels, tt.bits, tt.f)
			sound, err := guest.ReadSound(file, 1<<24)
			if err != nil {
				t.Fatal(err)
			}
			frames := (tt.n + 511) / 512
			want := make([]float32, frames*576)
			for i := range want {
				if at := i/576*512 - 64 + i%576; at >= 0 && at < tt.n {
					want[i] = sound.Samples[at]
				}
			}
			outputs := run(t, l, nil, samples.Elements("sound", file))
			same(t, "frames", samples.Values(outputs["frame"]), want, 1e-6, 1e-6)
			if got := binary.LittleEndian.Uint64(outputs["samples"].Data); got != uint64(tt.n) {
				t.Errorf("%d samples, want %d", got, tt.n)
			}
		})
	}
	refuses(t, l, nil, "the sound has 768001 samples a second: want 1000 to 768000",
		samples.Elements("sound", wavFile(10, 768001, 1, 16, 1)))
	refuses(t, l, nil, "the sound is not a WAV file", samples.Elements("sound", "OggS and so on"))
	refuses(t, l, nil, "the sound has encoding 7 with 8 bits", samples.Elements("sound", wavFile(10, 8000, 1, 8, 7)))
}

func TestSoundIsBroughtToTheRateOfTheModel(t *testing.T) {
	l := gallery(t, "sound_frames", nil)
	for _, rate := range []int{8000, 11025, 15999, 22050, 44100, 48000, 96000} {
		file := wavFile(rate/10, rate, 1, 16, 1)
		sound, err := guest.ReadSound(file, 1<<24)
		if err != nil {
			t.Fatal(err)
		}
		if sound, err = sound.Resample(16000, 1<<24); err != nil {
			t.Fatal(err)
		}
		outputs := run(t, l, parameters{"context", "0"}, samples.Elements("sound", file))
		if got := binary.LittleEndian.Uint64(outputs["samples"].Data); got != uint64(len(sound.Samples)) {
			t.Fatalf("%d a second: %d samples, want %d", rate, got, len(sound.Samples))
		}
		same(t, fmt.Sprint(rate), samples.Values(outputs["frame"])[:len(sound.Samples)], sound.Samples, 1e-5, 1e-5)
	}
}

func TestSpeechStepDoesWhatTheNativeCodeDoes(t *testing.T) {
	model := &box{answer: speechAnswer}
	file := wavFile(300*512-100, 16000, 1, 16, 1)
	want := native[struct {
		Segments []struct{ Start, End float32 }
		Requests int
		SHA256   string // of the inputs of all requests, in their order
	}](t, "speech.json")
	outputs := run(t, gallery(t, "speech", model), nil, samples.Elements("sound", file))
	if len(want.Segments) < 2 || len(model.requests) != want.Requests {
		t.Fatalf("%d segments of native code; %d requests, want %d", len(want.Segments), len(model.requests), want.Requests)
	}
	sum := sha256.New()
	for _, r := range model.requests {
		for _, in := range r.Inputs {
			sum.Write(in.Data)
		}
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want.SHA256 {
		t.Errorf("the inputs of the model are not those of native code: SHA-256 %s, want %s", got, want.SHA256)
	}
	var start, end []float32
	for _, s := range want.Segments {
		start, end = append(start, s.Start), append(end, s.End)
	}
	same(t, "start", samples.Values(outputs["start"]), start, 1e-6, 1e-6)
	same(t, "end", samples.Values(outputs["end"]), end, 1e-6, 1e-6)
	broken := &box{answer: func(*edgewise.Request) ([]edgewise.Tensor, error) {
		return nil, edgewise.Errorf("test", edgewise.Unavailable, "the model sleeps")
	}}
	refuses(t, gallery(t, "speech", broken), nil, "the model sleeps", samples.Elements("sound", file))
}
