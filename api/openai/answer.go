package openai

import (
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// maxAnswer bounds the text of an answer that is no stream.
const maxAnswer = 16 << 20

// What events begin and end with.
const (
	eventStart = "data: "
	eventEnd   = "\n\n"
	done       = "data: [DONE]\n\n"
)

// Completion is the body of an answer, or of an event of one.
type Completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []Choice `json:"choices"`
	Usage   *Usage   `json:"usage,omitempty"`
}

// Choice is the one answer of a Completion.
type Choice struct {
	Index        int     `json:"index"`
	Message      *Text   `json:"message,omitempty"` // of a chat
	Delta        *Text   `json:"delta,omitempty"`   // of an event of a chat
	Text         *string `json:"text,omitempty"`    // of a completion
	Logprobs     *int    `json:"logprobs"`          // always null
	FinishReason *string `json:"finish_reason"`     // null before the end
}

// Text is a message, or a piece of one.
type Text struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

// Usage counts tokens.
type Usage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	TotalTokens      int64 `json:"total_tokens"`
}

// Answer makes the answer to a request out of a model's responses.
type Answer struct {
	r       *Request
	head    Completion
	started bool
	text    []byte // of an answer that is no stream; of a stream the beginning of a character whose end is to come
}

// Answer begins the answer to a request. id is a text of its own, created the seconds since 1970.
func (r *Request) Answer(id string, created int64) *Answer {
	a := &Answer{r: r, head: Completion{ID: "cmpl-" + id, Object: "text_completion", Created: created, Model: r.Model}}
	switch {
	case r.Chat && r.Stream:
		a.head.ID, a.head.Object = "chatcmpl-"+id, "chat.completion.chunk"
	case r.Chat:
		a.head.ID, a.head.Object = "chatcmpl-"+id, "chat.completion"
	}
	return a
}

// Size estimates the bytes of the events of a response.
func (a *Answer) Size(resp *edgewise.Response) int64 {
	const head, events = 512, 4
	size := int64(events * (head + len(a.r.Model)))
	for i := range resp.Outputs {
		size += 2 * int64(len(resp.Outputs[i].Data))
	}
	return size
}

// Add keeps the text of a response to a request without a stream. Errors: Internal, TooLarge.
func (a *Answer) Add(resp *edgewise.Response) error {
	piece, err := textOf(resp)
	if err != nil {
		return err
	}
	if len(a.text)+len(piece) > maxAnswer {
		return edgewise.Errorf("openai.Add", edgewise.TooLarge, "the answer has more than %d bytes: ask for a stream", maxAnswer).
			WithLimit(maxAnswer)
	}
	a.text = append(a.text, piece...)
	return nil
}

// Body returns the answer to a request without a stream, whose responses were added; last is the last one.
func (a *Answer) Body(last *edgewise.Response) Completion {
	text, reason := string(a.text), reasonOf(last)
	c := Choice{FinishReason: &reason}
	if a.r.Chat {
		c.Message = &Text{Role: "assistant", Content: &text}
	} else {
		c.Text = &text
	}
	all := a.head
	all.Choices, all.Usage = []Choice{c}, usageOf(last)
	return all
}

// Append appends the events of a response; those of the last one end the stream. Errors: Internal.
func (a *Answer) Append(to []byte, resp *edgewise.Response, last bool) ([]byte, error) {
	piece, err := textOf(resp)
	if err != nil {
		return to, err
	}
	if a.r.Chat && !a.started {
		empty := ""
		to = a.event(to, Choice{Delta: &Text{Role: "assistant", Content: &empty}})
	}
	a.started = true
	if text := a.whole(piece, last); text != "" {
		c := Choice{Text: &text}
		if a.r.Chat {
			c = Choice{Delta: &Text{Content: &text}}
		}
		to = a.event(to, c)
	}
	if !last {
		return to, nil
	}
	reason, none := reasonOf(resp), ""
	end := Choice{Text: &none, FinishReason: &reason}
	if a.r.Chat {
		end = Choice{Delta: &Text{}, FinishReason: &reason}
	}
	to = a.event(to, end)
	if usage := usageOf(resp); a.r.Usage && usage != nil {
		all := a.head
		all.Choices, all.Usage = []Choice{}, usage
		to = appendEvent(to, all)
	}
	return append(to, done...), nil
}

// whole returns the text of a piece up to its last whole character, behind what was left of the piece before.
func (a *Answer) whole(piece []byte, last bool) string {
	text := append(a.text, piece...)
	end := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text) && !last; back++ {
		if start := len(text) - back; utf8.RuneStart(text[start]) {
			if !utf8.FullRune(text[start:]) {
				end = start
			}
			break
		}
	}
	whole := string(text[:end])
	a.text = append(a.text[:0], text[end:]...)
	return whole
}

// event appends an event.
func (a *Answer) event(to []byte, c Choice) []byte {
	all := a.head
	all.Choices = []Choice{c}
	return appendEvent(to, all)
}

func appendEvent(to []byte, v any) []byte {
	return append(append(append(to, eventStart...), marshal(v)...), eventEnd...)
}

// textOf returns the text of a response; none for one that is empty.
func textOf(resp *edgewise.Response) ([]byte, error) {
	if resp.Empty {
		return nil, nil
	}
	at := slices.IndexFunc(resp.Outputs, func(t edgewise.Tensor) bool { return t.Name == TextOutput })
	if at < 0 {
		return nil, nil
	}
	out := &resp.Outputs[at]
	if err := out.Check(); err != nil || out.Type != edgewise.Bytes {
		return nil, noText(resp, "output %q is no text: %w", TextOutput, err)
	}
	if n, _ := out.Shape.Elements(); n != 1 {
		return nil, noText(resp, "output %q has %d texts", TextOutput, n)
	}
	return out.Data[4 : 4+binary.LittleEndian.Uint32(out.Data)], nil
}

func noText(resp *edgewise.Response, format string, args ...any) error {
	return edgewise.About(resp.Model, edgewise.Errorf("openai.textOf", edgewise.Internal, format, args...))
}

// reasonOf returns why a text has ended.
func reasonOf(last *edgewise.Response) string {
	if reason, ok := last.Parameters[finishReason].(string); ok && reason != "" {
		return reason
	}
	return "stop"
}

// usageOf returns the counts of tokens, where the model gives them.
func usageOf(last *edgewise.Response) *Usage {
	prompt, ok := last.Parameters[promptTokens].(int64)
	completion, also := last.Parameters[completionTokens].(int64)
	if !ok && !also {
		return nil
	}
	return &Usage{PromptTokens: prompt, CompletionTokens: completion, TotalTokens: prompt + completion}
}

// Failure is the body of an answer that is an error.
type Failure struct {
	Error Fault `json:"error"`
}

// Fault describes an error.
type Fault struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"` // the member of the body that is wrong
	Code    *string `json:"code"`
}

// NewFailure describes an error.
func NewFailure(status int, body kserve.ErrorBody) Failure {
	f := Fault{Message: body.Error, Type: "invalid_request_error"}
	code := body.Code
	switch {
	case status == 401:
		f.Type, code = "authentication_error", "invalid_api_key"
	case status == 403:
		f.Type = "permission_error"
	case status == 404:
		code = "model_not_found"
	case status == 429:
		f.Type, code = "rate_limit_error", "rate_limit_exceeded"
	case status >= 500:
		f.Type = "server_error"
	}
	if code != "" {
		f.Code = &code
	}
	if param := body.Field; param != "" {
		f.Param = &param
	}
	return Failure{f}
}

// AppendFailure appends the event of an error.
func AppendFailure(to []byte, status int, body kserve.ErrorBody) []byte {
	return appendEvent(to, NewFailure(status, body))
}

// Model describes a model in the list of them.
type Model struct {
	ID      string `json:"id,omitempty"`
	Object  string `json:"object,omitempty"`
	Created int64  `json:"created,omitempty"`
	OwnedBy string `json:"owned_by,omitempty"`
}

// NewModel describes a version.
func NewModel(v *edgewise.Version) Model {
	return Model{ID: v.ID.Name, Object: "model", Created: v.Created.Unix(), OwnedBy: "edgewise"}
}

// List is the list of the models that complete texts.
type List struct {
	Object string  `json:"object"`
	Data   []Model `json:"data"`
}

// NewList makes a list.
func NewList(models []Model) List { return List{"list", models} }
