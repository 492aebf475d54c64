// Package openai holds the bodies of OpenAI's interface for language models: chat completions, completions, their
// streams, the list of models, and errors.
//
// Source: OpenAI's "API Reference".
package openai

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// The tensors of a model that completes texts, and the parameters of its last response.
const (
	TextInput        = "text_input"
	TextOutput       = "text_output"
	promptTokens     = "prompt_tokens"
	completionTokens = "completion_tokens"
	finishReason     = "finish_reason"
)

// Keys of a model's parameters.
const (
	keyOn      = "openai"         // "true": the model answers here
	keyMessage = "openai_message" // what each message becomes, with {role} and {content}
	keyPrompt  = "openai_prompt"  // what stands behind the last message
)

const opDecode = "openai.Decode"

// Request is a request for a completion.
type Request struct {
	Model  string
	Chat   bool
	Stream bool
	Usage  bool // the stream ends with the counts of tokens

	prompt   string
	messages []message
	settings []setting
	stop     []string
}

// message is one message of a chat.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// setting is a parameter of the generation, as JSON.
type setting struct {
	name  string
	value json.RawMessage
}

// body is the JSON of a request.
type body struct {
	Model         string          `json:"model"`
	Messages      []spoken        `json:"messages"`
	Prompt        json.RawMessage `json:"prompt"`
	Stream        bool            `json:"stream"`
	StreamOptions *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Stop                json.RawMessage `json:"stop"`
	MaxTokens           *int64          `json:"max_tokens"`
	MaxCompletionTokens *int64          `json:"max_completion_tokens"`
	Temperature         *float64        `json:"temperature"`
	TopP                *float64        `json:"top_p"`
	TopK                *int64          `json:"top_k"`
	Seed                *int64          `json:"seed"`
	PresencePenalty     *float64        `json:"presence_penalty"`
	FrequencyPenalty    *float64        `json:"frequency_penalty"`

	// What is not served.
	N              *int64            `json:"n"`
	BestOf         *int64            `json:"best_of"`
	Echo           bool              `json:"echo"`
	Suffix         *string           `json:"suffix"`
	Logprobs       json.RawMessage   `json:"logprobs"`
	Tools          []json.RawMessage `json:"tools"`
	Functions      []json.RawMessage `json:"functions"`
	ResponseFormat *struct {
		Type string `json:"type"`
	} `json:"response_format"`
}

// spoken is a message as clients send it.
type spoken struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// Decode decodes a request, for a chat completion or a completion. Errors: Invalid, Unsupported; Field names the member
// that is wrong.
func Decode(text []byte, chat bool) (*Request, error) {
	var b body
	if err := json.Unmarshal(text, &b); err != nil {
		return nil, edgewise.Errorf(opDecode, edgewise.Invalid, "the body is not the JSON of a request: %w", err)
	}
	r := &Request{Model: b.Model, Chat: chat, Stream: b.Stream, Usage: b.StreamOptions != nil && b.StreamOptions.IncludeUsage}
	if b.Model == "" {
		return nil, wrong("model", "you must provide a model parameter")
	}
	if err := b.unserved(); err != nil {
		return nil, err
	}
	var err error
	if chat {
		r.messages, err = b.chat()
	} else {
		r.prompt, err = b.text()
	}
	if err != nil {
		return nil, err
	}
	if r.stop, err = texts("stop", b.Stop); err != nil {
		return nil, err
	}
	return r, r.set(&b)
}

// unserved refuses what would change the answer and is not served.
func (b *body) unserved() error {
	for _, member := range []struct {
		name string
		set  bool
	}{
		{"n", b.N != nil && *b.N != 1},
		{"best_of", b.BestOf != nil && *b.BestOf != 1},
		{"echo", b.Echo},
		{"suffix", b.Suffix != nil && *b.Suffix != ""},
		{"logprobs", !slices.Contains([]string{"", "null", "false", "0"}, string(b.Logprobs))},
		{"tools", len(b.Tools) > 0},
		{"functions", len(b.Functions) > 0},
		{"response_format", b.ResponseFormat != nil && b.ResponseFormat.Type != "text"},
	} {
		if member.set {
			return wrong(member.name, "'%s' is not supported: leave it away", member.name)
		}
	}
	return nil
}

// chat reads the messages.
func (b *body) chat() (list []message, err error) {
	if len(b.Messages) == 0 {
		return nil, wrong("messages", "'messages' must have at least one message")
	}
	for i, m := range b.Messages {
		content, err := m.text()
		if err != nil {
			return nil, wrong("messages", "messages[%d].content is neither text nor a list of parts of the type text", i)
		}
		if m.Role == "" {
			return nil, wrong("messages", "messages[%d] has no role", i)
		}
		list = append(list, message{m.Role, content})
	}
	return list, nil
}

// text returns the text of a message: that of its parts, one after the other.
func (m *spoken) text() (string, error) {
	if len(m.Content) == 0 || string(m.Content) == "null" {
		return "", nil
	}
	var text string
	if m.Content[0] == '"' {
		err := json.Unmarshal(m.Content, &text)
		return text, err
	}
	var parts []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if err := json.Unmarshal(m.Content, &parts); err != nil {
		return "", err
	}
	for _, p := range parts {
		if p.Type != "text" || p.Text == nil {
			return "", wrong("messages", "a part of a message is %q", p.Type)
		}
		text += *p.Text
	}
	return text, nil
}

// text returns the prompt of a completion.
func (b *body) text() (string, error) {
	list, err := texts("prompt", b.Prompt)
	if err != nil || len(list) != 1 {
		return "", wrong("prompt", "'prompt' must be one text: a list of several, or of tokens, is not supported")
	}
	return list[0], nil
}

// texts reads a member that is a text or a list of texts; nil for null.
func texts(name string, value json.RawMessage) (list []string, err error) {
	switch {
	case len(value) == 0 || string(value) == "null":
		return nil, nil
	case value[0] == '"':
		list = make([]string, 1)
		err = json.Unmarshal(value, &list[0])
	default:
		err = json.Unmarshal(value, &list)
	}
	if err != nil {
		return nil, wrong(name, "'%s' must be a text or a list of texts", name)
	}
	return list, nil
}

// set keeps the parameters that are given.
func (r *Request) set(b *body) error {
	if b.MaxTokens == nil {
		b.MaxTokens = b.MaxCompletionTokens
	}
	if b.MaxTokens != nil && *b.MaxTokens < 1 {
		return wrong("max_tokens", "max_tokens is %d: want at least 1", *b.MaxTokens)
	}
	for _, n := range []struct {
		name  string
		value *int64
	}{{"max_tokens", b.MaxTokens}, {"top_k", b.TopK}, {"seed", b.Seed}} {
		if n.value != nil {
			r.settings = append(r.settings, setting{n.name, marshal(*n.value)})
		}
	}
	for _, n := range []struct {
		name  string
		value *float64
	}{
		{"temperature", b.Temperature},
		{"top_p", b.TopP},
		{"presence_penalty", b.PresencePenalty},
		{"frequency_penalty", b.FrequencyPenalty},
	} {
		if n.value == nil {
			continue
		}
		value := marshal(*n.value)
		if !bytes.ContainsAny(value, ".e") {
			value = append(value, ".0"...) // a float for those who take parameters as they come
		}
		r.settings = append(r.settings, setting{n.name, value})
	}
	return nil
}

// Infer makes the request to a model. memory returns room for so many bytes, which the request aliases. Errors: Invalid,
// TooLarge, Unsupported for a model that does not complete texts, and those of memory.
func (r *Request) Infer(
	d *kserve.Decoder, id edgewise.ModelID, m *edgewise.Model, memory func(size int) ([]byte, error),
) (*kserve.InferRequest, error) {
	prompt, conversation := r.prompt, ""
	if r.Chat {
		if form := m.Parameters[keyMessage].StringValue; form != "" {
			prompt = r.fill(form) + m.Parameters[keyPrompt].StringValue
		} else {
			conversation = string(marshal(r.messages))
		}
	}
	text := append([]byte(`{"`+TextInput+`":`), marshal(prompt)...)
	text = append(text, `,"stream":`...)
	text = append(text, marshal(r.Stream)...)
	for _, s := range r.settings {
		text = append(append(text, `,"`+s.name+`":`...), s.value...)
	}
	parameters := map[string]any{}
	if conversation != "" {
		parameters["messages"] = conversation
	}
	if len(r.stop) > 0 {
		if hasInput(m, "stop") {
			text = append(append(text, `,"stop":`...), marshal(r.stop)...)
		} else {
			parameters["stop"] = string(marshal(r.stop))
		}
	}
	text = append(text, '}')
	room, err := memory(len(text))
	if err != nil {
		return nil, err
	}
	req, err := d.Generate(id, m, append(room[:0], text...))
	if err != nil {
		return nil, err
	}
	for name, value := range parameters {
		if req.Parameters == nil {
			req.Parameters = map[string]any{}
		}
		req.Parameters[name] = value
	}
	return req, nil
}

// fill writes the messages in a form.
func (r *Request) fill(form string) string {
	var text strings.Builder
	for _, m := range r.messages {
		text.WriteString(strings.NewReplacer("{role}", m.Role, "{content}", m.Content).Replace(form))
	}
	return text.String()
}

// Served tells whether a model asks to be served here, and whether it can: it has the input "text_input" and the output
// "text_output" of one text each, and no other input that is required. Error: Unsupported.
func Served(m *edgewise.Model) (asked bool, err error) {
	if m.Parameters[keyOn].StringValue != "true" {
		return false, nil
	}
	in := slices.ContainsFunc(m.Input, func(i edgewise.ModelInput) bool {
		return i.Name == TextInput && one(i.DataType, i.Dims)
	})
	out := slices.ContainsFunc(m.Output, func(o edgewise.ModelOutput) bool {
		return o.Name == TextOutput && one(o.DataType, o.Dims)
	})
	more := slices.ContainsFunc(m.Input, func(i edgewise.ModelInput) bool {
		return i.Name != TextInput && !i.Optional && !known(i.Name)
	})
	if in && out && !more {
		return true, nil
	}
	return true, edgewise.Errorf("openai.Served", edgewise.Unsupported, "model %q has the parameter %q, and its signature is "+
		"not that of a text: want the input %s and the output %s of TYPE_STRING [1], and no other input that is required",
		m.Name, keyOn, TextInput, TextOutput)
}

// known tells whether an input is given by every request.
func known(input string) bool { return input == "stream" }

// one tells whether a tensor is one text.
func one(t edgewise.DataType, dims edgewise.Shape) bool {
	return t == edgewise.Bytes && !slices.ContainsFunc(dims, func(d int64) bool { return d != 1 && d != -1 })
}

func hasInput(m *edgewise.Model, name string) bool {
	return slices.ContainsFunc(m.Input, func(i edgewise.ModelInput) bool { return i.Name == name })
}

// wrong is the error about a member of a body.
func wrong(member, format string, args ...any) error {
	return edgewise.Errorf(opDecode, edgewise.Invalid, format, args...).WithField(member)
}

// marshal writes what always has a JSON form.
func marshal(v any) []byte {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("BUG: openai.marshal: " + err.Error())
	}
	return bytes.TrimSuffix(text.Bytes(), []byte{'\n'})
}
