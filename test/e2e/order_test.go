package e2e

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// chainConfig is an ensemble that has a step before the one that keeps sequences.
const chainConfig = `platform: "ensemble" max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: [2] }
output { name: "y" data_type: TYPE_FP32 dims: [2] }
ensemble_scheduling {
  step { model_name: "pass" model_version: -1 input_map { key: "x" value: "x" } output_map { key: "y" value: "t" } }
  step { model_name: "direct" model_version: -1 input_map { key: "x" value: "t" } output_map { key: "y" value: "y" } }
}
`

const (
	orderRounds = 40
	orderLength = 12 // requests of a sequence, which are sent without waiting for answers
)

// orderModels imports models with sequences, and an ensemble of one.
func orderModels(t *testing.T) string {
	t.Helper()
	folder := sequenceRepository(t, map[string]string{
		"direct": sequenceConfig(4, ""),
		"oldest": sequenceConfig(4, "oldest { max_candidate_sequences: 4 }"),
	})
	if err := onnxgen.Identity(edgewise.FP32, onnxgen.Dim{Name: "batch"},
		onnxgen.Dim{Size: 2}).Save(filepath.Join(folder, "pass", "1")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(folder, "chain", "1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "chain", "config.pbtxt"), []byte(chainConfig), 0o644); err != nil {
		t.Fatal(err)
	}
	return folder
}

// summed is what the k-th request of a sequence is answered, when the requests are powers of two and run in order.
func summed(k int) float32 { return 100 + float32(int(1)<<(k+1)-1) }

func orderRequest(model string, id, k int) *inference.ModelInferRequest {
	data := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(int(1)<<k)))
	return &inference.ModelInferRequest{
		ModelName: model, Id: fmt.Sprint(k), RawInputContents: [][]byte{append(data, 0, 0, 0, 0)},
		Inputs:  []*inference.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: "FP32", Shape: []int64{1, 2}}},
		Outputs: []*inference.ModelInferRequest_InferRequestedOutputTensor{{Name: "y"}},
		Parameters: map[string]*inference.InferParameter{
			"sequence_id":    {ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: int64(id)}},
			"sequence_start": {ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: k == 0}},
			"sequence_end":   {ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: k == orderLength-1}},
		},
	}
}

func orderAnswer(t *testing.T, what string, k int, r *inference.ModelInferResponse, err error) (ok bool) {
	t.Helper()
	if err != nil {
		t.Errorf("%s, request %d: %v", what, k, err)
		return false
	}
	if got := math.Float32frombits(binary.LittleEndian.Uint32(r.RawOutputContents[0])); got != summed(k) {
		t.Errorf("%s, request %d: got %v, want %v", what, k, got, summed(k))
		return false
	}
	return true
}

// TestSequencesKeepTheOrderOfOneConnection sends requests of sequences one after the other without waiting: calls of
// one gRPC connection, messages of one stream, and requests that stand behind each other on one HTTP connection.
func TestSequencesKeepTheOrderOfOneConnection(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir(), "--import", orderModels(t))
	connection, err := grpc.NewClient(b.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	id := 0
	for _, model := range []string{"direct", "oldest", "chain"} {
		wrong := map[string]int{}
		for range orderRounds {
			for how, send := range map[string]func(model string, id int) bool{
				"calls":     func(model string, id int) bool { return calls(t, connection, model, id) },
				"a stream":  func(model string, id int) bool { return messages(t, connection, model, id) },
				"pipelined": func(model string, id int) bool { return pipelined(t, b, model, id) },
			} {
				if id++; !send(model, id) {
					wrong[how]++
				}
			}
		}
		for how, n := range wrong {
			t.Errorf("%s: %d of %d sequences as %s are wrong", model, n, orderRounds, how)
		}
	}
	b.stop()
}

func calls(t *testing.T, connection *grpc.ClientConn, model string, id int) bool {
	t.Helper()
	var list []grpc.ClientStream
	for k := range orderLength {
		call, err := connection.NewStream(t.Context(), &grpc.StreamDesc{}, inference.GRPCInferenceService_ModelInfer_FullMethodName)
		if err == nil {
			err = call.SendMsg(orderRequest(model, id, k))
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, call)
	}
	right := true
	for k, call := range list {
		r := new(inference.ModelInferResponse)
		err := call.RecvMsg(r)
		right = right && orderAnswer(t, "calls of "+model, k, r, err)
	}
	return right
}

func messages(t *testing.T, connection *grpc.ClientConn, model string, id int) bool {
	t.Helper()
	stream, err := inference.NewGRPCInferenceServiceClient(connection).ModelStreamInfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for k := range orderLength {
		if err := stream.Send(orderRequest(model, id, k)); err != nil {
			t.Fatal(err)
		}
	}
	_ = stream.CloseSend()
	right := true
	for k := range orderLength {
		r, err := stream.Recv()
		if err == nil && r.ErrorMessage != "" {
			err = fmt.Errorf("%s", r.ErrorMessage)
		}
		right = right && orderAnswer(t, "a stream to "+model, k, r.GetInferResponse(), err)
	}
	return right
}

func pipelined(t *testing.T, b *box, model string, id int) bool {
	t.Helper()
	address := strings.TrimPrefix(b.url, "http://")
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	var all []byte
	for k := range orderLength {
		body := fmt.Sprintf(`{"parameters":{"sequence_id":%d,"sequence_start":%v,"sequence_end":%v},`+
			`"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[%d,0]}],"outputs":[{"name":"y"}]}`,
			id, k == 0, k == orderLength-1, 1<<k)
		all = fmt.Appendf(all, "POST /v2/models/%s/infer HTTP/1.1\r\nHost: %s\r\nContent-Type: "+
			"application/json\r\nContent-Length: %d\r\n\r\n%s", model, address, len(body), body)
	}
	if _, err := conn.Write(all); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	for k := range orderLength {
		r, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Errorf("pipelined to %s, request %d: %v", model, k, err)
			return false
		}
		var answer struct {
			Error   string
			Outputs []struct{ Data []float32 }
		}
		err = json.NewDecoder(r.Body).Decode(&answer)
		_ = r.Body.Close()
		if err != nil || answer.Error != "" || answer.Outputs[0].Data[0] != summed(k) {
			t.Errorf("pipelined to %s, request %d: got %+v, want %v, %v", model, k, answer, summed(k), err)
			return false
		}
	}
	return true
}

// TestATimeoutInTheBacklogIsThatOfTheWholeSequence sends a sequence for which there is no slot in one stream.
func TestATimeoutInTheBacklogIsThatOfTheWholeSequence(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir(), "--import",
		sequenceRepository(t, map[string]string{"one": sequenceConfig(1, "") + "instance_group { count: 1 }"}))
	if _, _, err := b.add("one", edgewise.Sequence{ID: 1, Start: true}, 5); err != nil {
		t.Fatal(err)
	}
	connection, err := grpc.NewClient(b.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	stream, err := inference.NewGRPCInferenceServiceClient(connection).ModelStreamInfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	send := func(k int) {
		req := orderRequest("one", 2, k)
		req.Parameters["timeout"] = &inference.InferParameter{ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: 300_000}}
		if err := stream.Send(req); err != nil {
			t.Fatal(err)
		}
	}
	fails := func(want string) {
		t.Helper()
		if r, err := stream.Recv(); err != nil || !strings.Contains(r.ErrorMessage, want) {
			t.Errorf("got %v, %v, want %s", r, err, want)
		}
	}
	for k := range 3 {
		send(k)
	}
	for range 3 {
		fails("timeout of the corresponding sequence has been expired")
	}
	send(3)
	fails("inference request for sequence 2 to model 'one' must specify the START flag on the first request of the sequence")
	if _, _, err := b.add("one", edgewise.Sequence{ID: 1, End: true}, 5); err != nil {
		t.Error(err)
	}
	b.stop()
}
