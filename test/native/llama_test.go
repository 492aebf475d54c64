package native_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/backend"
	"github.com/edgewise-ai/edgewise/test/gguf"
)

// runtime is where "make build" places llama.cpp's libraries.
const runtime = "../../bin/lib/backends/llama"

var compiled struct {
	sync.Once
	program string
}

// llama returns backends/llama, compiled with the compiler's checks, beside llama.cpp's libraries.
func llama(t *testing.T) (command []string) {
	t.Helper()
	libraries, err := filepath.Glob(runtime + "/lib*.so")
	if err != nil || len(libraries) == 0 {
		t.Fatalf("no libraries of llama.cpp in %s: run make llama", runtime)
	}
	compiled.Do(func() {
		program := build(t, "../../backends/llama/llama.cpp", "address,undefined")
		folder, err := os.MkdirTemp("", "edgewise-llama")
		if err == nil {
			err = os.Rename(program, filepath.Join(folder, "backend"))
		}
		for _, library := range libraries {
			if path, wrong := filepath.Abs(library); err == nil && wrong == nil {
				err = os.Symlink(path, filepath.Join(folder, filepath.Base(path)))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		compiled.program = filepath.Join(folder, "backend")
	})
	if compiled.program == "" {
		t.Fatal("backends/llama was not compiled")
	}
	return []string{compiled.program}
}

func TestMain(m *testing.M) {
	status := m.Run()
	if compiled.program != "" {
		_ = os.RemoveAll(filepath.Dir(compiled.program))
	}
	os.Exit(status)
}

// text serves a generated model with parameters of its configuration.
func text(t *testing.T, model *gguf.Model, parameters ...string) *served {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "model.gguf"), model.File(), 0o600); err != nil {
		t.Fatal(err)
	}
	return serve(t, llama(t), folder, configured(parameters...))
}

func configured(parameters ...string) string {
	list := make([]string, 0, len(parameters))
	for _, p := range parameters {
		name, value, _ := strings.Cut(p, "=")
		list = append(list, fmt.Sprintf("%q: {%q: %q}", name, "string_value", value))
	}
	return fmt.Sprintf(`{"name": "text", "parameters": {%s}}`, strings.Join(list, ", "))
}

func words(name string, list ...string) edgewise.Tensor {
	t := edgewise.Tensor{Name: name, Type: edgewise.Bytes, Shape: edgewise.Shape{int64(len(list))}}
	for _, text := range list {
		t.Data = edgewise.AppendElement(t.Data, text)
	}
	return t
}

// said is what came of a request.
type said struct {
	pieces     []string
	text       string
	parameters map[string]any // of the last response
	err        error
}

// hear takes all responses.
func hear(t *testing.T, r *request) (s said) {
	t.Helper()
	for {
		response := <-r.responses
		for _, output := range response.Outputs {
			piece := string(output.Data[4:])
			s.pieces, s.text = append(s.pieces, piece), s.text+piece
		}
		response.Taken()
		if response.Final {
			s.parameters, s.err = response.Parameters, response.Error
			return s
		}
	}
}

// say asks for the most likely text, with more parameters.
func (s *served) say(prompt string, most int, more map[string]any) *request {
	s.t.Helper()
	parameters := map[string]any{"temperature": 0.0, "max_tokens": int64(most)}
	for name, value := range more {
		parameters[name] = value
	}
	return s.ask(parameters, words("text_input", prompt))
}

func TestTextsAreThoseOfTheModelsDefinition(t *testing.T) {
	t.Parallel()
	model := gguf.New(3, 0.5)
	for _, sequences := range []int{1, 4} {
		s := text(t, model, fmt.Sprintf("max_num_seqs=%d", sequences), "batch_tokens=7")
		if note := s.ready.Note; !strings.HasPrefix(note, "llama.cpp 0.5.0") || !strings.Contains(note, " on ") {
			t.Errorf("the note is %q", note)
		}
		prompts := []string{"abc", "hello w", "xyz", "abc", "the quick brown fox jumps", "z", "lazy dog", "abc"}
		answers := make([]said, len(prompts))
		var wait sync.WaitGroup
		for i, prompt := range prompts {
			r := s.say(prompt, 40, nil) // waits while all sequences are in use
			wait.Add(1)
			go func() { defer wait.Done(); answers[i] = hear(t, r) }()
		}
		wait.Wait()
		for i, prompt := range prompts {
			want, tokens, margin := model.Greedy(prompt, 40)
			if margin < 0.05 {
				t.Errorf("%q is no good prompt: the margin is %v", prompt, margin)
			}
			got := answers[i]
			if text := string([]rune(string(want))); got.err != nil || got.text != text {
				t.Errorf("%q with %d sequences: got %q (%v), want %q", prompt, sequences, got.text, got.err, text)
			}
			reason := "length"
			if tokens < 40 {
				reason = "stop"
			}
			if p := got.parameters; p["prompt_tokens"] != int64(gguf.Prompt(prompt)) ||
				p["completion_tokens"] != int64(tokens) || p["finish_reason"] != reason {
				t.Errorf("%q: the last response says %v, want %d and %d tokens, %s", prompt, p, gguf.Prompt(prompt), tokens,
					reason)
			}
		}
	}
}

func TestEachResponseOfATextHoldsWholeCharacters(t *testing.T) {
	t.Parallel()
	s := text(t, gguf.New(1, 0))
	got := hear(t, s.say("abc", 90, nil))
	if got.err != nil || len(got.pieces) < 60 || got.text != strings.Repeat(gguf.Line, 4)[3:3+len(got.text)] {
		t.Fatalf("got %q (%v)", got.pieces, got.err)
	}
	for _, piece := range got.pieces[:len(got.pieces)-1] {
		if !utf8.ValidString(piece) {
			t.Errorf("got the piece %q of %q", piece, got.text)
		}
	}
	whole := hear(t, s.say("abc", 90, map[string]any{"stream": false}))
	if whole.err != nil || len(whole.pieces) != 1 || whole.text != got.text {
		t.Errorf("without a stream: got %d responses, %q (%v)", len(whole.pieces), whole.text, whole.err)
	}
}

func TestATextEndsBeforeAStopString(t *testing.T) {
	t.Parallel()
	s := text(t, gguf.New(1, 0))
	for stop, want := range map[any]string{
		"é":                       "defghijklmnopqrstuvwxyz ",
		"hijk":                    "defg",
		`["never", "lmn", "no"]`:  "defghijk",
		"d":                       "",
		"hij!":                    "defghijklmnopqrstuvw",
		`["hij!", "mnopq", "zz"]`: "defghijkl",
	} {
		got := hear(t, s.say("abc", 20, map[string]any{"stop": stop}))
		if stop == "é" {
			got = hear(t, s.say("abc", 40, map[string]any{"stop": stop}))
		}
		if got.err != nil || got.text != want {
			t.Errorf("stop %v: got %q (%v), want %q", stop, got.pieces, got.err, want)
		}
	}
	got := hear(t, s.say("stop!", 40, nil))
	if got.err != nil || got.text != "" || got.parameters["finish_reason"] != "stop" {
		t.Errorf("at the end of the text: got %+v", got)
	}
}

func TestATextIsChosenByASeed(t *testing.T) {
	t.Parallel()
	s := text(t, gguf.New(3, 0.5))
	choose := func(more map[string]any) string {
		got := hear(t, s.say("abc", 40, more))
		if got.err != nil {
			t.Error(got.err)
		}
		return got.text
	}
	hot := func(seed int64) string { return choose(map[string]any{"temperature": 2.0, "seed": seed}) }
	if one := hot(1); one != hot(1) || one == hot(2) && one == hot(3) {
		t.Errorf("seeds 1, 1, 2, 3: got %q, %q, %q, %q", one, hot(1), hot(2), hot(3))
	}
	likely := choose(nil)
	if got := choose(map[string]any{"temperature": 2.0, "top_k": int64(1)}); got != likely {
		t.Errorf("the first one alone: got %q, want %q", got, likely)
	}
	if got := choose(map[string]any{"temperature": 1.0, "top_p": 0.0001}); got != likely {
		t.Errorf("as few as possible: got %q, want %q", got, likely)
	}
}

func TestARequestSaysItsWishesByInputsToo(t *testing.T) {
	t.Parallel()
	s := text(t, gguf.New(1, 0))
	number := func(name string, kind edgewise.DataType, bits uint32) edgewise.Tensor {
		data := binary.LittleEndian.AppendUint32(nil, bits)
		return edgewise.Tensor{Name: name, Type: kind, Shape: edgewise.Shape{1}, Data: data}
	}
	for name, inputs := range map[string][]edgewise.Tensor{
		"inputs": {
			number("max_tokens", edgewise.Int32, 10), number("temperature", edgewise.FP32, math.Float32bits(0)),
			words("stop", "never", "lm"),
			{Name: "stream", Type: edgewise.Bool, Shape: edgewise.Shape{1}, Data: []byte{0}},
		},
		"one of JSON": {
			words("sampling_parameters", `{"max_tokens": 10, "temperature": 0, "stop": ["never", "lm"], "stream": false}`),
		},
	} {
		got := hear(t, s.ask(nil, append(inputs, words("text_input", "abc"))...))
		if got.err != nil || got.text != "defghijk" || len(got.pieces) != 1 {
			t.Errorf("%s: got %q (%v)", name, got.pieces, got.err)
		}
	}
	spoken := `[{"role": "user", "content": "abc"}]`
	got := hear(t, s.ask(map[string]any{"messages": spoken, "temperature": 0.0}, words("text_input", "")))
	if got.err != nil || got.parameters["prompt_tokens"] == int64(gguf.Prompt("abc")) {
		t.Errorf("a conversation: got %+v", got)
	}
}

func TestAClientThatReadsNothingHoldsUpNobody(t *testing.T) {
	t.Parallel()
	s := text(t, gguf.New(1, 0))
	slow := s.say("abc", 200, nil)
	var held []*backend.Response
	for range backend.MaxUntaken {
		held = append(held, <-slow.responses)
	}
	if got := hear(t, s.say("abc", 100, nil)); got.err != nil || len(got.text) != 100 {
		t.Errorf("beside it: got %q (%v)", got.text, got.err)
	}
	select {
	case r := <-slow.responses:
		t.Errorf("a response more than %d came: %+v", backend.MaxUntaken, r)
	default:
	}
	for _, r := range held {
		r.Taken()
	}
	if got := hear(t, slow); got.err != nil || got.parameters["completion_tokens"] != int64(200) {
		t.Errorf("in the end: got %+v", got)
	}
}

func TestACancelledTextEnds(t *testing.T) {
	t.Parallel()
	s := text(t, gguf.New(1, 0), "max_num_seqs=1")
	for range 3 { // each in the place of the one before
		r := s.say("abc", 200, nil)
		for range backend.MaxUntaken {
			<-r.responses
		}
		s.client.Cancel(&r.Call)
		var told *backend.Error
		if got := hear(t, r); !errors.As(got.err, &told) || told.Code != backend.Cancelled {
			t.Errorf("got %+v", got)
		}
	}
}

func TestWhatCannotBeAnsweredIsRefused(t *testing.T) {
	t.Parallel()
	s := text(t, gguf.New(1, 0), "max_model_len=64")
	for name, more := range map[string]map[string]any{
		"temperature is out of range": {"temperature": -1.0},
		"max_tokens is out of range":  {"max_tokens": int64(0)},
		"top_p is out of range":       {"top_p": "much"},
		"not JSON":                    {"sampling_parameters": "{"},
		"more than 16 strings":        {"stop": `["` + strings.Repeat(`a","`, 16) + `b"]`},
	} {
		if got := hear(t, s.say("abc", 4, more)); got.err == nil || !strings.Contains(got.err.Error(), name) {
			t.Errorf("%v: got %+v", more, got)
		}
	}
	if got := hear(t, s.say(strings.Repeat("a", 70), 4, nil)); got.err == nil ||
		!strings.Contains(got.err.Error(), "the text has 72 tokens, and the model takes fewer than 64") {
		t.Errorf("a long text: got %+v", got)
	}
	if got := hear(t, s.say(strings.Repeat("a", 50), 40, nil)); got.err != nil ||
		got.parameters["completion_tokens"] != int64(64-52+1) || got.parameters["finish_reason"] != "length" {
		t.Errorf("a text that fills the context: got %+v", got)
	}
	if got := hear(t, s.say("abc", 4, nil)); got.err != nil || got.text != "defg" {
		t.Errorf("after all that: got %+v", got)
	}
}

func TestAFileThatIsNoModelIsRefused(t *testing.T) {
	t.Parallel()
	whole := gguf.New(1, 0).File()
	for name, c := range map[string]struct {
		file          []byte
		configuration string
		want          string
	}{
		"no file":            {nil, configured(), "model.gguf is missing"},
		"another file":       {[]byte("no model"), configured(), "llama.cpp cannot load this file"},
		"half a file":        {whole[:len(whole)/2], configured(), "llama.cpp cannot load this file"},
		"a wrong parameter":  {whole, configured("max_num_seqs=many"), "max_num_seqs is not a number from 1 to 64"},
		"too many sequences": {whole, configured("max_num_seqs=65"), "max_num_seqs is not a number from 1 to 64"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			if c.file != nil {
				if err := os.WriteFile(filepath.Join(folder, "model.gguf"), c.file, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := try(t, llama(t), folder, c.configuration); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got the error %v, want %s", err, c.want)
			}
		})
	}
}
