package kserve

import (
	"encoding/json"

	"github.com/edgewise-ai/edgewise"
)

// ShortAnswer returns an answer as the inference protocol has it in JSON, nil for one with more than most bytes of tensors
// and for one that has no JSON form.
func ShortAnswer(resp *edgewise.Response, most int) json.RawMessage {
	size := 0
	for i := range resp.Outputs {
		size += len(resp.Outputs[i].Data)
	}
	if size > most {
		return nil
	}
	text, _, err := AppendInferResponse(nil, &InferRequest{}, resp)
	if err != nil || !json.Valid(text) {
		return nil
	}
	return text
}
