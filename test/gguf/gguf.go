// Package gguf makes a small language model as a GGUF file, and says what it answers.
package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Sizes of the model.
const (
	Context = 256 // tokens that it was made for, and the most that llama.cpp gives a request by itself
	width   = 32
	heads   = 4
	kvHeads = 2
	head    = width / heads
	inner   = 64
	layers  = 2
	space   = 259 // the token of a space; before it: unknown, begin, end, and a token for each byte
	tokens  = 260
	begin   = 1
	end     = 2
	firstID = 3 // of the byte 0
	epsilon = 1e-5
)

// Line is what the model says again and again: each byte of it, of which none occurs twice, is most likely followed by
// the next one, and the last by the first. An exclamation mark is followed by the end.
const Line = "abcdefghijklmnopqrstuvwxyz é€."

// matrix is a weight of rows that are as long as its input.
type matrix struct {
	name    string
	columns int // 0: a vector
	data    []float32
}

// Model is a llama of two layers. The same seed makes the same one. Its texts follow Line more or less, because what
// stands before counts as well.
type Model struct {
	Template string // for conversations, as in tokenizer_config.json; empty: the file has none

	weights []*matrix
	byName  map[string]*matrix
}

// New makes a model. noise says how much its layers have to say: with 0 it follows Line exactly.
func New(seed uint64, noise float64) *Model {
	r := rand.New(rand.NewPCG(seed, seed))
	m := &Model{byName: map[string]*matrix{}}
	random := func(name string, rows, columns int, scale float64) *matrix {
		w := m.add(name, columns, rows*max(columns, 1))
		for i := range w.data {
			w.data[i] = float32(scale * r.NormFloat64())
		}
		return w
	}
	embedding := random("token_embd.weight", tokens, width, 1)
	output := m.add("output.weight", width, tokens*width)
	for from, to := range successors() {
		copy(output.row(to), embedding.row(from))
	}
	m.ones("output_norm.weight")
	for l := range layers {
		name := func(part string) string { return fmt.Sprintf("blk.%d.%s.weight", l, part) }
		m.ones(name("attn_norm"))
		m.ones(name("ffn_norm"))
		random(name("attn_q"), width, width, 0.3)
		random(name("attn_k"), kvHeads*head, width, 0.3)
		random(name("attn_v"), kvHeads*head, width, 0.3)
		random(name("attn_output"), width, width, 0.3*noise)
		random(name("ffn_gate"), inner, width, 0.3)
		random(name("ffn_up"), inner, width, 0.3)
		random(name("ffn_down"), width, inner, 0.1*noise)
	}
	return m
}

func (m *Model) add(name string, columns, size int) *matrix {
	w := &matrix{name: name, columns: columns, data: make([]float32, size)}
	m.weights, m.byName[name] = append(m.weights, w), w
	return w
}

func (m *Model) ones(name string) {
	w := m.add(name, 0, width)
	for i := range w.data {
		w.data[i] = 1
	}
}

func (w *matrix) row(i int) []float32 { return w.data[i*w.columns : (i+1)*w.columns] }

func byteToken(b byte) int {
	if b == ' ' {
		return space
	}
	return firstID + int(b)
}

// successors says which token follows which.
func successors() map[int]int {
	next := map[int]int{byteToken('!'): end}
	for i := range len(Line) {
		next[byteToken(Line[i])] = byteToken(Line[(i+1)%len(Line)])
	}
	return next
}

// File returns the model as a GGUF file.
func (m *Model) File() []byte {
	var b bytes.Buffer
	w := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) } // a buffer takes everything
	text := func(s string) { w(uint64(len(s))); b.WriteString(s) }
	keys := 0
	var head bytes.Buffer
	b, head = head, b
	key := func(name string, kind uint32, value any) {
		keys++
		text(name)
		w(kind)
		if s, ok := value.(string); ok {
			text(s)
			return
		}
		w(value)
	}
	m.keys(key, text, w)
	offset := uint64(0)
	for _, t := range m.weights {
		text(t.name)
		if t.columns == 0 {
			w(uint32(1))
			w(uint64(len(t.data)))
		} else {
			w(uint32(2))
			w([]uint64{uint64(t.columns), uint64(len(t.data) / t.columns)})
		}
		w(uint32(0)) // float32
		w(offset)
		offset += (uint64(4*len(t.data)) + 31) &^ 31
	}
	rest := b.Bytes()
	b = bytes.Buffer{}
	b.WriteString("GGUF")
	w(uint32(3))
	w([]uint64{uint64(len(m.weights)), uint64(keys)})
	b.Write(rest)
	pad := func() { b.Write(make([]byte, (32-b.Len()%32)%32)) }
	for _, t := range m.weights {
		pad()
		w(t.data)
	}
	pad()
	return b.Bytes()
}

// Kinds of values in GGUF.
const (
	kindUint32  = 4
	kindInt32   = 5
	kindFloat32 = 6
	kindText    = 8
	kindArray   = 9
)

// keys writes what the file says beside its weights.
func (m *Model) keys(key func(string, uint32, any), text func(string), w func(any)) {
	key("general.architecture", kindText, "llama")
	key("general.name", kindText, "small")
	key("general.file_type", kindUint32, uint32(0))
	for _, size := range []struct {
		name  string
		value uint32
	}{
		{"context_length", Context},
		{"embedding_length", width},
		{"block_count", layers},
		{"feed_forward_length", inner},
		{"attention.head_count", heads},
		{"attention.head_count_kv", kvHeads},
		{"rope.dimension_count", head},
		{"vocab_size", tokens},
	} {
		key("llama."+size.name, kindUint32, size.value)
	}
	key("llama.attention.layer_norm_rms_epsilon", kindFloat32, float32(epsilon))
	key("tokenizer.ggml.model", kindText, "llama")
	if m.Template != "" {
		key("tokenizer.chat_template", kindText, m.Template)
	}
	for id, name := range []string{"unknown", "bos", "eos"} {
		key("tokenizer.ggml."+name+"_token_id", kindUint32, uint32(id))
	}
	names, kinds := []string{"<unk>", "<s>", "</s>"}, []int32{2, 3, 3}
	for b := range 256 {
		names, kinds = append(names, fmt.Sprintf("<0x%02X>", b)), append(kinds, 6)
	}
	names, kinds = append(names, "▁"), append(kinds, 1)
	array := func(name string, kind uint32) {
		key("tokenizer.ggml."+name, kindArray, []byte{})
		w(kind)
		w(uint64(tokens))
	}
	array("tokens", kindText)
	for _, name := range names {
		text(name)
	}
	array("scores", kindFloat32)
	w(make([]float32, tokens))
	array("token_type", kindInt32)
	w(kinds)
}

// Prompt returns how many tokens a prompt has.
func Prompt(prompt string) int { return len(encode(prompt)) }

// encode turns a text into tokens as llama's tokenizer does with this vocabulary.
func encode(text string) []int {
	list := []int{begin, space}
	for i := range len(text) {
		list = append(list, byteToken(text[i]))
	}
	return list
}

// Greedy returns what the model says after a prompt: the most likely token each time, until the end or most tokens.
// margin is the least distance between the logits of a token and of the second one: rounding makes no difference when
// it is large.
func (m *Model) Greedy(prompt string, most int) (text []byte, generated int, margin float64) {
	list, margin := encode(prompt), math.Inf(1)
	for range most {
		logits := m.logits(list)
		order := make([]int, tokens)
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int { return int(math.Copysign(1, logits[b]-logits[a])) })
		margin = min(margin, logits[order[0]]-logits[order[1]])
		next := order[0]
		if next == end {
			break
		}
		list, generated = append(list, next), generated+1
		switch {
		case next == space:
			text = append(text, ' ')
		case next >= firstID:
			text = append(text, byte(next-firstID))
		}
	}
	return text, generated, margin
}

// logits returns those of the token after a list, as the definition of a llama says, without any cache.
func (m *Model) logits(list []int) []float64 {
	states := make([][]float64, len(list))
	for i, token := range list {
		for _, v := range m.byName["token_embd.weight"].row(token) {
			states[i] = append(states[i], float64(v))
		}
	}
	for l := range layers {
		w := func(part string) *matrix { return m.byName[fmt.Sprintf("blk.%d.%s.weight", l, part)] }
		var keys, values [][]float64
		for position, x := range states {
			n := normalized(x)
			keys = append(keys, rotated(w("attn_k").times(n), position))
			values = append(values, w("attn_v").times(n))
		}
		for position, x := range states {
			q := rotated(w("attn_q").times(normalized(x)), position)
			add(x, w("attn_output").times(attention(q, keys[:position+1], values)))
			gate, up := w("ffn_gate").times(normalized(x)), w("ffn_up").times(normalized(x))
			for i := range gate {
				gate[i] *= up[i] / (1 + math.Exp(-gate[i]))
			}
			add(x, w("ffn_down").times(gate))
		}
	}
	return m.byName["output.weight"].times(normalized(states[len(states)-1]))
}

func (w *matrix) times(x []float64) []float64 {
	out := make([]float64, len(w.data)/w.columns)
	for i := range out {
		for j, v := range w.row(i) {
			out[i] += float64(v) * x[j]
		}
	}
	return out
}

func add(to, x []float64) {
	for i := range to {
		to[i] += x[i]
	}
}

func normalized(x []float64) []float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v / math.Sqrt(sum/float64(len(x))+epsilon)
	}
	return out
}

// rotated turns each pair of neighbours in each head by an angle that grows with the position.
func rotated(x []float64, position int) []float64 {
	for i := 0; i < len(x); i += 2 {
		sin, cos := math.Sincos(float64(position) * math.Pow(10000, -float64(i%head)/head))
		x[i], x[i+1] = x[i]*cos-x[i+1]*sin, x[i]*sin+x[i+1]*cos
	}
	return x
}

// attention returns what a query of all heads finds among keys.
func attention(q []float64, keys, values [][]float64) []float64 {
	out := make([]float64, width)
	for h := range heads {
		from := h / (heads / kvHeads) * head
		scores, sum := make([]float64, len(keys)), 0.0
		for t := range keys {
			for i := range head {
				scores[t] += q[h*head+i] * keys[t][from+i]
			}
			scores[t] = math.Exp(scores[t] / math.Sqrt(head))
			sum += scores[t]
		}
		for t := range keys {
			for i := range head {
				out[h*head+i] += scores[t] / sum * values[t][from+i]
			}
		}
	}
	return out
}
