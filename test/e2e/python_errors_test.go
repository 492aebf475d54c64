package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/edgewise-ai/edgewise/api/inference"
)

// judging answers each request of a batch by what it says: the name of a TritonError's code, or a number.
const judging = `import numpy as np
import triton_python_backend_utils as pb

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            said = pb.get_input_tensor_by_name(request, "IN").as_numpy().ravel()[0].decode()
            if said == "raise":
                raise ValueError("no part of this batch is answered")
            if said == "default":
                responses.append(pb.InferenceResponse(error=pb.TritonError("no code was given")))
            elif said.isdigit():
                out = pb.Tensor("OUT", np.array([[len(requests)]], np.int32))
                responses.append(pb.InferenceResponse(output_tensors=[out]))
            else:
                code = getattr(pb.TritonError, said)
                out = pb.Tensor("OUT", np.zeros((1, 1), np.int32))
                responses.append(pb.InferenceResponse([out], pb.TritonError("it is " + said, code)))
        return responses
`

const judgingConfiguration = `backend: "python"
max_batch_size: 16
input { name: "IN" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }
dynamic_batching { max_queue_delay_microseconds: 60000000 preferred_batch_size: [ 16 ] }`

// judgements are what clients of both protocols see of an error of a Python model.
var judgements = []struct {
	said, text string
	rest       int
	grpc       codes.Code
}{
	{"UNKNOWN", "it is UNKNOWN", http.StatusInternalServerError, codes.Internal},
	{"INTERNAL", "it is INTERNAL", http.StatusInternalServerError, codes.Internal},
	{"default", "no code was given", http.StatusInternalServerError, codes.Internal},
	{"NOT_FOUND", "it is NOT_FOUND", http.StatusNotFound, codes.NotFound},
	{"INVALID_ARG", "it is INVALID_ARG", http.StatusBadRequest, codes.InvalidArgument},
	{"UNAVAILABLE", "it is UNAVAILABLE", http.StatusServiceUnavailable, codes.Unavailable},
	{"UNSUPPORTED", "it is UNSUPPORTED", http.StatusNotImplemented, codes.Unimplemented},
	{"ALREADY_EXISTS", "it is ALREADY_EXISTS", http.StatusConflict, codes.AlreadyExists},
	{"CANCELLED", "it is CANCELLED", 499, codes.Canceled},
}

// TestErrorsOfAPythonModelHaveTheirCodes fails requests one by one, some of a batch, and a batch as a whole.
func TestErrorsOfAPythonModelHaveTheirCodes(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir())
	b.pushPython(t, "judging", strings.Replace(judgingConfiguration, "60000000", "0", 1), judging, nil)
	for _, test := range judgements {
		t.Run(test.said, func(t *testing.T) { b.judged(t, test.said, test.text, test.rest, test.grpc) })
	}
	t.Run("an exception fails the batch", func(t *testing.T) {
		b.judged(t, "raise", "ValueError: no part of this batch is answered", http.StatusInternalServerError, codes.Internal)
	})
	t.Run("errors of a batch are those of their requests", func(t *testing.T) {
		b.pushPython(t, "judging", judgingConfiguration, judging, nil)
		b.judgeTogether(t)
	})
	b.stop()
}

// judged asks the model over REST and gRPC for an error.
func (b *box) judged(t *testing.T, said, text string, rest int, code codes.Code) {
	t.Helper()
	got, answer := b.send(http.MethodPost, "/v2/models/judging/infer", judgedIn(said), "Content-Type", mimeJSON)
	if got != rest || !strings.Contains(answer, text) {
		t.Errorf("over REST: %d %s, want %d and %q", got, answer, rest, text)
	}
	_, err := inference.NewGRPCInferenceServiceClient(b.dial(t)).ModelInfer(t.Context(), &inference.ModelInferRequest{
		ModelName: "judging",
		Inputs: []*inference.ModelInferRequest_InferInputTensor{{
			Name: "IN", Datatype: "BYTES", Shape: []int64{1, 1},
			Contents: &inference.InferTensorContents{BytesContents: [][]byte{[]byte(said)}},
		}},
	})
	if status.Code(err) != code || !strings.Contains(status.Convert(err).Message(), text) {
		t.Errorf("over gRPC: %v, want %v and %q", err, code, text)
	}
}

func judgedIn(said string) []byte {
	return fmt.Appendf(nil, `{"inputs":[{"name":"IN","datatype":"BYTES","shape":[1,1],"data":[%q]}]}`, said)
}

// judgeTogether sends good and bad requests of one batch.
func (b *box) judgeTogether(t *testing.T) {
	t.Helper()
	var all sync.WaitGroup
	sizes := make(chan int, 16)
	for i := range 16 {
		all.Go(func() {
			if test := judgements[i%len(judgements)]; i%2 == 1 {
				got, answer := b.send(http.MethodPost, "/v2/models/judging/infer", judgedIn(test.said), "Content-Type", mimeJSON)
				if got != test.rest || !strings.Contains(answer, test.text) {
					t.Errorf("%s: %d %s", test.said, got, answer)
				}
				return
			}
			got, answer := b.send(http.MethodPost, "/v2/models/judging/infer", judgedIn("7"), "Content-Type", mimeJSON)
			var a struct {
				Outputs []struct{ Data []int }
			}
			if err := json.Unmarshal([]byte(answer), &a); err != nil || got != http.StatusOK || len(a.Outputs) != 1 {
				t.Errorf("a good request: %d %s: %v", got, answer, err)
				return
			}
			sizes <- a.Outputs[0].Data[0]
		})
	}
	all.Wait()
	close(sizes)
	for n := range sizes {
		if n != 16 {
			t.Errorf("a good request was one of %d in its batch, want 16", n)
		}
	}
}
