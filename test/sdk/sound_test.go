package sdk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/demo"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/tensorfile"
)

// wav makes a WAV file of n samples: code 1 integers, 3 floats.
func wav(n, rate, channels, bits, code int) []byte {
	var data []byte
	for i := range n {
		for c := range channels {
			v := math.Sin(float64(i)*0.05+float64(c)) * 0.8
			switch {
			case code == 3:
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(v)))
			case bits == 8:
				data = append(data, byte(128+v*127))
			case bits == 16:
				data = binary.LittleEndian.AppendUint16(data, uint16(int16(v*32767)))
			case bits == 24:
				s := int32(v * 8388607)
				data = append(data, byte(s), byte(s>>8), byte(s>>16))
			default:
				data = binary.LittleEndian.AppendUint32(data, uint32(int32(v*2147483647)))
			}
		}
	}
	var file bytes.Buffer
	file.WriteString("RIFF\x00\x00\x00\x00WAVELIST\x03\x00\x00\x00abc\x00fmt ")
	for _, field := range []any{uint32(16), uint16(code), uint16(channels), uint32(rate), uint32(rate * channels * bits / 8), uint16(channels * bits / 8), uint16(bits)} {
		_ = binary.Write(&file, binary.LittleEndian, field)
	}
	file.WriteString("data")
	_ = binary.Write(&file, binary.LittleEndian, uint32(len(data)))
	file.Write(data)
	return file.Bytes()
}

func TestSoundIsCutIntoFrames(t *testing.T) {
	l := gallery(t, "sound_frames", nil)
	for _, tt := range []struct {
		name                 string
		n, channels, bits, f int
	}{
		{"8 bits", 1000, 1, 8, 1}, {"16 bits", 1024, 1, 16, 1}, {"24 bits, stereo", 1025, 2, 24, 1}, {"32 bits", 513, 1, 32, 1}, {"floats, 3 channels", 511, 3, 32, 3}, {"nothing", 0, 1, 16, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := wav(tt.n, 16000, tt.channels, tt.bits, tt.f)
			sound, err := tensorfile.DecodeSound(file)
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
			outputs := run(t, l, nil, elements("sound", file))
			same(t, "frames", values(outputs["frame"]), want, 1e-6, 1e-6)
			if got := binary.LittleEndian.Uint64(outputs["samples"].Data); got != uint64(tt.n) {
				t.Errorf("%d samples, want %d", got, tt.n)
			}
		})
	}
	refuses(t, l, nil, "the sound has 768001 samples a second: at most 768000 are taken", elements("sound", wav(10, 768001, 1, 16, 1)))
	refuses(t, l, nil, "the sound is not a WAV file", elements("sound", "OggS and so on"))
	refuses(t, l, nil, "the sound has format 7, 8 bits, 1 channels", elements("sound", wav(10, 8000, 1, 8, 7)))
	for cut := 12; cut < 50; cut++ {
		refuses(t, l, nil, "the sound has no samples", elements("sound", wav(0, 16000, 1, 16, 1)[:cut]))
	}
}

func TestSoundIsBroughtToTheRateOfTheModel(t *testing.T) {
	l := gallery(t, "sound_frames", nil)
	for _, rate := range []int{8000, 11025, 15999, 22050, 44100, 48000, 96000} {
		file := wav(rate/10, rate, 1, 16, 1)
		sound, err := tensorfile.DecodeSound(file)
		if err != nil {
			t.Fatal(err)
		}
		sound = sound.Resample(16000)
		outputs := run(t, l, parameters{"context", "0"}, elements("sound", file))
		if got := binary.LittleEndian.Uint64(outputs["samples"].Data); got != uint64(len(sound.Samples)) {
			t.Fatalf("%d a second: %d samples, want %d", rate, got, len(sound.Samples))
		}
		same(t, fmt.Sprint(rate), values(outputs["frame"])[:len(sound.Samples)], sound.Samples, 1e-5, 1e-5)
	}
}

// vadModel hears speech in some stretches of frames, and counts on in the state it is given.
func vadModel(request *edgewise.Request) ([]edgewise.Tensor, error) {
	var frame float32
	var state edgewise.Tensor
	for _, in := range request.Inputs {
		if in.Name == "state" {
			state = in
			frame = values(in)[255]
		}
	}
	next := values(state)
	next[255]++
	p := float32(0.1)
	if n := int(frame); n >= 4 && n < 16 || n >= 17 && n < 25 || n >= 32 && n < 35 || n >= 40 {
		p = 0.9
	}
	return []edgewise.Tensor{floats("output", []float32{p}, 1, 1), floats("stateN", next, 2, 1, 128)}, nil
}

func TestSpeechStepDoesWhatTheDemoDoes(t *testing.T) {
	native, guest := &box{answer: vadModel}, &box{answer: vadModel}
	file := wav(60*512-100, 16000, 1, 16, 1)
	sound, err := tensorfile.DecodeSound(file)
	if err != nil {
		t.Fatal(err)
	}
	want, err := demo.NewVAD(native, "vad").Find(t.Context(), sound.Samples)
	if err != nil {
		t.Fatal(err)
	}
	outputs := run(t, gallery(t, "speech", guest), nil, elements("sound", file))
	if len(want.Segments) < 2 || len(guest.requests) != len(native.requests) {
		t.Fatalf("%d segments in the demo; %d requests, want %d", len(want.Segments), len(guest.requests), len(native.requests))
	}
	for i, r := range native.requests {
		for k := range r.Inputs {
			if !bytes.Equal(r.Inputs[k].Data, guest.requests[i].Inputs[k].Data) {
				t.Fatalf("request %d: input %q differs from the demo's", i, r.Inputs[k].Name)
			}
		}
	}
	var start, end []float32
	for _, s := range want.Segments {
		start, end = append(start, float32(s.Start)), append(end, float32(s.End))
	}
	same(t, "start", values(outputs["start"]), start, 1e-6, 1e-6)
	same(t, "end", values(outputs["end"]), end, 1e-6, 1e-6)
	broken := &box{answer: func(*edgewise.Request) ([]edgewise.Tensor, error) {
		return nil, edgewise.Errorf("test", edgewise.Unavailable, "the model sleeps")
	}}
	refuses(t, gallery(t, "speech", broken), nil, "the model sleeps", elements("sound", file))
}
