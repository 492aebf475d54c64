package sdk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/step"
	guest "github.com/edgewise-ai/edgewise/sdk/go"
	"github.com/edgewise-ai/edgewise/test/samples"
)

// audio is what the steps in testdata/sound do with a file: read it, bring it to a rate unless that is 0, cut it.
type audio struct {
	name                                   string
	file                                   []byte
	rate, limit, width, hop, before, after int
}

func (a audio) parameters() parameters {
	return parameters{
		"rate", fmt.Sprint(a.rate), "limit", fmt.Sprint(a.limit), "width", fmt.Sprint(a.width),
		"hop", fmt.Sprint(a.hop), "before", fmt.Sprint(a.before), "after", fmt.Sprint(a.after),
	}
}

// native is what the helpers of the Go SDK, which this program contains too, make of it.
func (a audio) native() (sound guest.Sound, frames []float32, err error) {
	sound, err = guest.ReadSound(a.file, a.limit)
	if err == nil && a.rate != 0 {
		sound, err = sound.Resample(a.rate, a.limit)
	}
	if err == nil {
		frames, err = sound.Frames(a.width, a.hop, a.before, a.after, a.limit)
	}
	return sound, frames, err
}

// read is a file that is only read.
func read(name string, file []byte) audio {
	return audio{name: name, file: file, limit: 1 << 20, width: 1, hop: 1 << 20}
}

// wave is a WAV file of chunks, name and body each, padded to even sizes.
func wave(chunks ...string) []byte {
	file := []byte("RIFF\x00\x00\x00\x00WAVE")
	for i := 0; i < len(chunks); i += 2 {
		file = append(file, chunks[i]...)
		file = append(binary.LittleEndian.AppendUint32(file, uint32(len(chunks[i+1]))), chunks[i+1]...)
		file = append(file, make([]byte, len(chunks[i+1])%2)...)
	}
	return file
}

// format is a fmt chunk's body; extra are the bytes of an extensible one behind the first 16.
func format(code, channels, rate, bits int, extra ...byte) string {
	body := binary.LittleEndian.AppendUint16(nil, uint16(code))
	body = binary.LittleEndian.AppendUint16(body, uint16(channels))
	body = binary.LittleEndian.AppendUint32(body, uint32(rate))
	body = append(body, 0, 0, 0, 0, 0, 0)
	return string(append(binary.LittleEndian.AppendUint16(body, uint16(bits)), extra...))
}

func goodSounds() []audio {
	var all []audio
	for _, kind := range [][2]int{{1, 8}, {1, 16}, {1, 24}, {1, 32}, {3, 32}, {3, 64}} {
		for _, channels := range []int{1, 2, 3, 64} {
			for _, n := range []int{0, 1, 500} {
				a := read(fmt.Sprintf("%d bits of encoding %d, %d channels, %d samples", kind[1], kind[0], channels, n),
					wavFile(n, 16000, channels, kind[1], kind[0]))
				a.width, a.hop, a.before, a.after = 100, 30, 17, 5
				all = append(all, a)
			}
		}
	}
	for _, rates := range [][2]int{
		{8000, 16000},
		{44100, 16000},
		{48000, 16000},
		{44101, 16000},
		{16000, 44100},
		{11025, 96000},
		{1000, 48000},
		{192000, 8000},
		{767999, 16000},
		{768000, 1000},
		{1001, 7919},
		{16000, 16000},
	} {
		a := read(fmt.Sprint("rates ", rates), wavFile(2000, rates[0], 1, 16, 1))
		a.rate, a.width, a.hop = rates[1], 64, 64
		all = append(all, a, audio{"no samples at " + a.name, wavFile(0, rates[0], 1, 16, 1), rates[1], 10, 1, 1, 0, 0})
	}
	long := func(bits ...uint64) string {
		var data []byte
		for _, b := range bits {
			data = binary.LittleEndian.AppendUint64(data, b)
		}
		return string(data)
	}
	huge := []uint64{
		math.Float64bits(math.NaN()), math.Float64bits(math.Inf(-1)), math.Float64bits(1e300),
		math.Float64bits(math.MaxFloat32), math.Float64bits(-1e-310),
	}
	short := []byte{}
	for _, bits := range []uint32{0x7fc00000, 0x7f800000, 0xff800000, 0x80000000, 1, 0x7f7fffff} {
		short = binary.LittleEndian.AppendUint32(short, bits)
	}
	subFormat := append([]byte{22, 0, 16, 0, 4, 0, 0, 0, 1, 0}, make([]byte, 14)...)
	return append(all,
		read("floats that are no numbers", wave("fmt ", format(3, 1, 8000, 32), "data", string(short))),
		read("channels that are no numbers", wave("fmt ", format(3, 2, 8000, 32), "data", string(short))),
		read("long floats that are no numbers", wave("fmt ", format(3, 1, 8000, 64), "data", long(huge...))),
		read("an extensible format", wave("fmt ", format(0xfffe, 1, 8000, 16, subFormat...), "data", "\x00\x40\x00\xc0")),
		read("the last format counts", wave("fmt ", format(1, 1, 8000, 16), "fmt ", format(1, 2, 9000, 8), "data", "abcd")),
		read("a part of a sample", wave("fmt ", format(1, 2, 8000, 24), "data", "abcdefghi")),
		read("chunks of odd sizes", wave("LIST", "abc", "fmt ", format(1, 1, 8000, 8)+"x", "fact", "", "JUNK", "\x01", "data", "abc")),
		read("the data's size is too large", append(wave("fmt ", format(1, 1, 8000, 8), "data", "")[:40], "\xff\xff\xff\xffabc"...)),
		audio{"silence around nothing", wave("fmt ", format(1, 1, 8000, 8), "data", ""), 0, 100, 3, 2, 4, 4},
		audio{"frames further apart than they are wide", wavFile(50, 8000, 1, 8, 1), 0, 100, 3, 20, 10, 30},
		audio{"frames of silence alone", wavFile(5, 8000, 1, 8, 1), 0, 100, 2, 7, 20, 20},
		audio{"a hop beyond the end", wavFile(5, 8000, 1, 8, 1), 0, 100, 5, 1<<32 - 1, 0, 0},
		audio{"as many as the limit", wavFile(100, 8000, 1, 8, 1), 16000, 200, 20, 20, 0, 0},
	)
}

func badSounds() []audio {
	whole := wave("LIST", "abc", "fmt ", format(1, 1, 8000, 16), "data", "")
	var all []audio
	for cut := range len(whole) {
		all = append(all, read(fmt.Sprint("cut off after ", cut), whole[:cut]))
	}
	for _, f := range [][4]int{
		{1, 0, 8000, 16},
		{1, 65, 8000, 16},
		{1, 65535, 8000, 16},
		{1, 1, 0, 16},
		{1, 1, 999, 16},
		{1, 1, 768001, 16},
		{1, 1, 1<<32 - 1, 16},
		{1, 1, 8000, 0},
		{1, 1, 8000, 12},
		{1, 1, 8000, 64},
		{3, 1, 8000, 16},
		{0, 1, 8000, 16},
		{7, 1, 8000, 8},
		{0xfffe, 1, 8000, 16},
	} {
		all = append(all, read(fmt.Sprint("format ", f), wave("fmt ", format(f[0], f[1], f[2], f[3]), "data", "abcdefgh")))
	}
	for _, magic := range []string{"RIFX", "RF64", "riff", "OggS"} {
		all = append(all, read(magic, append([]byte(magic), whole[4:]...)))
	}
	hundred := wavFile(100, 8000, 1, 8, 1)
	return append(all,
		read("data before its format", wave("data", "abcd", "fmt ", format(1, 1, 8000, 16))),
		read("a chunk of 4 GiB", append(wave()[:12], "JUNK\xff\xff\xff\xffabc"...)),
		read("a chunk of 4 GiB - 2", append(wave()[:12], "JUNK\xfe\xff\xff\xff"+string(whole[12:])...)),
		read("a format of 4 GiB", append(wave()[:12], "fmt \xff\xff\xff\xffabc"...)),
		read("a short format", wave("fmt ", "ab", "data", "abcd")),
		read("a thousand empty chunks", wave(strings.Split(strings.Repeat("JUNK,,", 1000), ",")[:2000]...)),
		audio{"one sample over the limit", hundred, 0, 99, 1, 1, 0, 0},
		audio{"one over the limit at its rate", hundred, 16000, 199, 1, 1, 0, 0},
		audio{"one over the limit in frames", hundred, 0, 119, 20, 17, 10, 0},
		audio{"frames over one another", hundred, 0, 1000, 50, 1, 0, 0},
		audio{"silence beyond the limit", hundred, 0, 1000, 1, 1, 1<<32 - 1, 1<<32 - 1},
		audio{"frames as wide as numbers go", hundred, 0, 1000, 1<<32 - 1, 1, 1<<32 - 1, 1<<32 - 1},
		audio{"frames of no width", hundred, 0, 1000, 0, 1, 0, 0},
		audio{"frames without a hop", hundred, 0, 1000, 1, 0, 0, 0},
		audio{"to too low a rate", hundred, 999, 1000, 1, 1, 0, 0},
		audio{"to too high a rate", hundred, 768001, 1 << 20, 1, 1, 0, 0},
		audio{"to a rate that makes too much of it", wavFile(2000, 1000, 1, 8, 1), 768000, 1 << 20, 1, 1, 0, 0},
	)
}

// changed are files with a few of their bytes changed, most of them in the header.
func changed(n int) []audio {
	r := rand.New(rand.NewPCG(18, 67))
	sources := goodSounds()
	var all []audio
	for i := range n {
		a := sources[r.IntN(len(sources))]
		a.file = bytes.Clone(a.file)
		a.name, a.limit = fmt.Sprintf("change %d of %s", i, a.name), 1<<18
		for range 1 + r.IntN(3) {
			a.file[r.IntN(min(len(a.file), 12+r.IntN(80)))] = byte(r.IntN(256))
		}
		all = append(all, a)
	}
	return all
}

func TestSoundHelpersAnswerAlikeInEverySDK(t *testing.T) {
	bad := badSounds()
	for _, a := range bad {
		if _, _, err := a.native(); err == nil {
			t.Errorf("%s: it was taken", a.name)
		}
	}
	good := goodSounds()
	for _, a := range good {
		if _, _, err := a.native(); err != nil {
			t.Errorf("%s: %v", a.name, err)
		}
	}
	all := append(append(good, bad...), changed(500)...)
	for _, language := range step.Languages() {
		t.Run(language.String(), func(t *testing.T) {
			l := loaded(t, built(t, filepath.Join("testdata/sound", language.String())), nil)
			for _, a := range all {
				answersAsNative(t, l, a)
			}
			memoryBoundsSounds(t, l, language)
		})
	}
}

// memoryBoundsSounds checks that two million samples are read, resampled and framed in the default memory of a step,
// that one more than a limit is refused, and that a limit beyond the memory costs its own request and nothing else. C
// and Rust say how much was asked for; the runtimes of the others stop the step.
func memoryBoundsSounds(t *testing.T, l edgewise.Inferer, language step.Language) {
	t.Helper()
	const limit = 2 << 20
	fits := audio{"as long as the limit", wavFile(limit/2, 8000, 1, 16, 1), 16000, limit, 512, 512, 0, 0}
	answersAsNative(t, l, fits)
	longer := fits
	longer.name, longer.file = "longer than the limit", wavFile(limit/2+1, 8000, 1, 16, 1)
	answersAsNative(t, l, longer)
	large := audio{"larger than the memory", wavFile(50000, 1000, 1, 8, 1), 768000, 1 << 28, 1, 1, 0, 0}
	_, err := try(t.Context(), l, large.parameters(), samples.Elements("sound", large.file))
	want := ""
	if language == step.C || language == step.Rust {
		want = "out of memory: 38400000 elements"
	}
	if err == nil || edgewise.KindOf(err) != edgewise.Guest || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: the error is %v: want one with %q", large.name, err, want)
	}
	answersAsNative(t, l, fits)
}

// answersAsNative compares to the bit, and the errors to the letter.
func answersAsNative(t *testing.T, l edgewise.Inferer, a audio) {
	t.Helper()
	sound, frames, err := a.native()
	if err != nil {
		_, got := try(t.Context(), l, a.parameters(), samples.Elements("sound", a.file))
		if got == nil || !strings.HasSuffix(got.Error(), err.Error()) || edgewise.KindOf(got) != edgewise.Guest ||
			strings.Contains(got.Error(), "trap") {
			t.Errorf("%s: the error is %v: want %q", a.name, got, err)
		}
		return
	}
	outputs, err := try(t.Context(), l, a.parameters(), samples.Elements("sound", a.file))
	if err != nil {
		t.Errorf("%s: %v", a.name, err)
		return
	}
	if got := integers(outputs["rate"])[0]; int(got) != sound.Rate {
		t.Errorf("%s: %d samples a second: want %d", a.name, got, sound.Rate)
	}
	sameBits(t, a.name+": samples", samples.Values(outputs["samples"]), sound.Samples)
	sameBits(t, a.name+": frames", samples.Values(outputs["frames"]), frames)
}

func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d values, want %d", what, len(got), len(want))
		return
	}
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Errorf("%s: value %d is %v, want %v", what, i, got[i], want[i])
			return
		}
	}
}
