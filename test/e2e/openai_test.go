package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/edgewise-ai/edgewise/test/gguf"
	"github.com/edgewise-ai/edgewise/test/real"
)

// writer is a model that writes its text word by word.
const writer = `import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            text = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy()[0].decode()
            limit = pb_utils.get_input_tensor_by_name(request, "max_tokens")
            limit = 100 if limit is None else int(limit.as_numpy()[0])
            words = text.split()
            reason, count = "stop", 0
            while text == "forever" and not request.is_cancelled():
                self.send(sender, "again ")
            for word in words:
                if count == limit:
                    reason = "length"
                    break
                if word == "break":
                    sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError("broken on purpose")))
                    break
                self.send(sender, word + (" " if count + 1 < len(words) else ""))
                count += 1
            sender.send(pb_utils.InferenceResponse(parameters={"prompt_tokens": len(words), "completion_tokens": count,
                "finish_reason": reason}, output_tensors=[self.tensor("")]), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return None

    def tensor(self, text):
        return pb_utils.Tensor("text_output", np.array([text.encode()], dtype=np.object_))

    def send(self, sender, text):
        sender.send(pb_utils.InferenceResponse(output_tensors=[self.tensor(text)]))
`

const writerConfiguration = `backend: "python"
input { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] }
input { name: "max_tokens" data_type: TYPE_INT32 dims: [ 1 ] optional: true }
output { name: "text_output" data_type: TYPE_STRING dims: [ 1 ] }
model_transaction_policy { decoupled: true }
parameters { key: "openai" value { string_value: "true" } }
parameters { key: "openai_message" value { string_value: "{role}={content} " } }
parameters { key: "openai_prompt" value { string_value: "assistant=" } }
`

// TestOpenAIsClientTalksToAModel lets OpenAI's client for Node.js list models, chat, read streams, leave one early and meet
// errors, against a decoupled Python model.
func TestOpenAIsClientTalksToAModel(t *testing.T) {
	t.Parallel()
	repository := t.TempDir()
	folder := filepath.Join(repository, "writer")
	if err := os.MkdirAll(filepath.Join(folder, "1"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"1/model.py": writer, "config.pbtxt": writerConfiguration} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := serveReady(t, t.TempDir(), "--import", repository)
	b.openAI(t, "client.mjs", "writer")
	b.stop()
}

// openAI runs a program with OpenAI's client for Node.js, with more arguments behind the box's address.
func (b *box) openAI(t *testing.T, program string, arguments ...string) {
	t.Helper()
	const missing = `run "make openai-client", which installs what this needs`
	client := filepath.Join(real.Root(t), ".cache", "openai-client")
	if _, err := os.Stat(filepath.Join(client, "node_modules", "openai")); err != nil {
		t.Fatalf("OpenAI's client is not there: %s", missing)
	}
	command := append([]string{filepath.Join("testdata", "openai", program), client, b.url}, arguments...)
	contains(t, "the client's output", tool(t, missing, "node", command...), "all is well")
}

const (
	// the template of Phi 3, of which llama.cpp knows what it makes of a conversation
	chatTemplate = "{% for message in messages %}{{ '<|' + message['role'] + '|>\n' + message['content'] + '<|end|>\n' }}{% endfor %}" +
		"{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
	conversation = "<|system|>\nBe brief.<|end|>\n<|user|>\nabc<|end|>\n<|assistant|>\n"
)

// TestOpenAIsClientTalksToAGGUFFile lets the same client chat with a generated language model whose file has a template
// for conversations, whole and as streams, and wants what the model's definition says.
func TestOpenAIsClientTalksToAGGUFFile(t *testing.T) {
	t.Parallel()
	const most = 24
	type expected struct {
		Text   string `json:"text"`
		Prompt int    `json:"prompt"`
		Tokens int    `json:"tokens"`
	}
	var model *gguf.Model
	want := map[string]expected{}
	for seed, clear := uint64(1), false; !clear; seed++ { // until no rounding can change what it says
		model, clear = gguf.New(seed, 0.5), true
		model.Template = chatTemplate
		for name, prompt := range map[string]string{"chat": conversation, "completion": "hello w"} {
			text, tokens, margin := model.Greedy(prompt, most)
			clear = clear && margin > 0.01 && tokens == most
			want[name] = expected{string([]rune(string(text))), gguf.Prompt(prompt), tokens}
		}
	}
	folder := t.TempDir()
	for name, content := range map[string][]byte{
		"model.gguf": model.File(), "config.pbtxt": []byte(`parameters { key: "openai" value { string_value: "true" } }`),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := serveReady(t, t.TempDir())
	b.must("model", "push", "small", folder)
	told, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	b.openAI(t, "llama.mjs", "small", string(told))
	b.stop()
}
