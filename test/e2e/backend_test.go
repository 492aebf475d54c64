package e2e

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
	"github.com/edgewise-ai/edgewise/test/real"
)

var (
	backendAll  = flag.Bool("e2e.backend", false, "serve all of ONNX's backend models, not a sample of them")
	backendOnly = flag.String("e2e.backend-only", "", "serve the backend models whose name holds this text")
)

// backendSample is how many models there are for one of the sample. The list is in the order of names, so that
// neighbours have the same operator.
const backendSample = 7

// unlike are the models whose answers differ from run to run.
var unlike = []string{"bernoulli", "training_dropout"}

// outcome is what became of a model.
type outcome struct {
	name   string
	result string // "served", "refused by the runtime", "not carried", "failed"
	why    string
}

// TestBackendModels serves the backend models of ONNX, each over JSON, binary tensors and gRPC, and holds the answers
// against those of the runtime alone.
func TestBackendModels(t *testing.T) {
	t.Parallel()
	models := backendModels(t)
	if *backendOnly != "" {
		models = slices.DeleteFunc(models, func(m backendModel) bool { return !strings.Contains(m.name, *backendOnly) })
	} else if !*backendAll {
		var sample []backendModel
		for i := 0; i < len(models); i += backendSample {
			sample = append(sample, models[i])
		}
		models = sample
	}
	lib, err := ort.Open([]string{real.Library(t)}, ort.Process{})
	if err != nil {
		t.Fatal(err)
	}
	b := serveReady(t, t.TempDir(), "--set", "store.reserve_bytes=0")
	connection, err := grpc.NewClient(b.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	s := &backendSuite{box: b, lib: lib, grpc: inference.NewGRPCInferenceServiceClient(connection)}
	outcomes := make([]outcome, len(models))
	work := make(chan int)
	var workers sync.WaitGroup
	for range 3 {
		workers.Go(func() {
			for i := range work {
				result, why := s.try(t.Context(), models[i])
				outcomes[i] = outcome{models[i].name, result, why}
			}
		})
	}
	for i := range models {
		work <- i
	}
	close(work)
	workers.Wait()
	report(t, outcomes)
}

func report(t *testing.T, outcomes []outcome) {
	counts := map[string]int{}
	for _, o := range outcomes {
		counts[o.result]++
		switch {
		case o.result == "failed":
			t.Errorf("%s: %s", o.name, o.why)
		case o.result != "served" && testing.Verbose():
			t.Logf("%s: %s: %s", o.name, o.result, o.why)
		}
	}
	t.Logf("%d models: %v", len(outcomes), counts)
}

type backendSuite struct {
	box  *box
	lib  *ort.Library
	grpc inference.GRPCInferenceServiceClient
}

// reference is what the runtime alone says to a model's test inputs.
type reference struct {
	inputs  [][]edgewise.Tensor // by test set
	outputs [][]edgewise.Tensor
}

// try serves one model.
func (s *backendSuite) try(ctx context.Context, m backendModel) (result, why string) {
	ref, result, why := s.reference(ctx, m)
	if ref == nil {
		return result, why
	}
	name := modelName(m.name)
	file, err := os.ReadFile(m.file)
	if err != nil {
		return "failed", err.Error()
	}
	status, answer := s.box.send(http.MethodPost, "/api/v1/models/"+name+"/versions", file, "Content-Type", mimeFile)
	if status != http.StatusCreated {
		return "failed", fmt.Sprintf("push: %d %s", status, answer)
	}
	defer s.box.send(http.MethodDelete, "/api/v1/models/"+name, nil)
	for i := range ref.inputs {
		req := &edgewise.Request{Model: edgewise.ModelID{Name: name}, Inputs: ref.inputs[i]}
		for _, transport := range s.transports() {
			got, err := transport.infer(ctx, req)
			if err != nil {
				return "failed", fmt.Sprintf("%s: set %d: %v", transport.name, i, err)
			}
			for _, want := range ref.outputs[i] {
				at := slices.IndexFunc(got, func(t edgewise.Tensor) bool { return t.Name == want.Name })
				if at < 0 {
					return "failed", fmt.Sprintf("%s: output %q is missing", transport.name, want.Name)
				}
				if different := slices.ContainsFunc(unlike, func(text string) bool { return strings.Contains(m.name, text) }); different {
					want.Data, got[at].Data = nil, nil
				}
				if why := sameTensor(got[at], want); why != "" {
					return "failed", fmt.Sprintf("%s: set %d: %s", transport.name, i, why)
				}
			}
		}
	}
	return "served", ""
}

// reference runs a model on the runtime alone. It returns nil and what that means when there is nothing to compare
// with.
func (s *backendSuite) reference(ctx context.Context, m backendModel) (*reference, string, string) {
	session, inputs, outputs, err := s.session(m.file)
	if err != nil {
		return nil, "refused by the runtime", err.Error()
	}
	defer session.Close()
	for _, v := range inputs {
		if !v.Tensor || v.Type == edgewise.InvalidType {
			return nil, "not carried", fmt.Sprintf("input %q", v.Name)
		}
	}
	var want []string
	for _, v := range outputs {
		if v.Tensor && v.Type != edgewise.InvalidType {
			want = append(want, v.Name)
		}
	}
	if len(want) == 0 {
		return nil, "not carried", "its outputs"
	}
	ref := &reference{}
	for _, dir := range m.sets {
		in, err := readInputs(dir, inputs)
		if err != nil {
			return nil, "failed", err.Error()
		}
		result, err := session.Run(ctx, in, want, edgewise.RunOptions{})
		if err != nil {
			return nil, "refused by the runtime", err.Error()
		}
		var copies []edgewise.Tensor
		for _, out := range result.Outputs {
			out.Data = slices.Clone(out.Data)
			copies = append(copies, out)
		}
		result.Free()
		ref.inputs, ref.outputs = append(ref.inputs, in), append(ref.outputs, copies)
	}
	return ref, "", ""
}

// session opens a model with all its names.
func (s *backendSuite) session(file string) (session *ort.Session, inputs, outputs []ort.Value, err error) {
	first, err := s.lib.NewSession(file, nil, nil, ort.Options{})
	if err != nil {
		return nil, nil, nil, err
	}
	defer first.Close()
	if inputs, err = first.Inputs(); err != nil {
		return nil, nil, nil, err
	}
	if outputs, err = first.Outputs(); err != nil {
		return nil, nil, nil, err
	}
	names := func(values []ort.Value) (list []string) {
		for _, v := range values {
			list = append(list, v.Name)
		}
		return list
	}
	session, err = s.lib.NewSession(file, names(inputs), names(outputs), ort.Options{})
	return session, inputs, outputs, err
}

// readInputs reads the inputs of a test set. Files without a name are in the order of the model's inputs.
func readInputs(dir string, inputs []ort.Value) ([]edgewise.Tensor, error) {
	var list []edgewise.Tensor
	for i := range inputs {
		tensor, err := readTensor(fmt.Sprintf("%s/input_%d.pb", dir, i))
		if err != nil {
			return nil, fmt.Errorf("input %d: %w", i, err)
		}
		if inputs[i].Type == edgewise.BF16 && tensor.Type == edgewise.Uint16 { // as the package's maker stored them
			tensor.Type = edgewise.BF16
		}
		if !slices.ContainsFunc(inputs, func(v ort.Value) bool { return v.Name == tensor.Name }) {
			tensor.Name = inputs[i].Name
		}
		list = append(list, tensor)
	}
	return list, nil
}

// transport is a way to send a request.
type transport struct {
	name  string
	infer func(context.Context, *edgewise.Request) ([]edgewise.Tensor, error)
}

func (s *backendSuite) transports() []transport {
	over := func(form kserve.Form) func(context.Context, *edgewise.Request) ([]edgewise.Tensor, error) {
		return func(ctx context.Context, req *edgewise.Request) ([]edgewise.Tensor, error) {
			r, err := s.box.client.InferAs(ctx, req, form, form)
			if err != nil {
				return nil, err
			}
			return r.Outputs, nil
		}
	}
	return []transport{{"JSON", over(kserve.JSON)}, {"binary", over(kserve.Binary)}, {"gRPC", s.overGRPC}}
}

func (s *backendSuite) overGRPC(ctx context.Context, req *edgewise.Request) ([]edgewise.Tensor, error) {
	message := &inference.ModelInferRequest{ModelName: req.Model.Name}
	for _, in := range req.Inputs {
		message.Inputs = append(message.Inputs,
			&inference.ModelInferRequest_InferInputTensor{Name: in.Name, Datatype: in.Type.String(), Shape: in.Shape})
		message.RawInputContents = append(message.RawInputContents, in.Data)
	}
	answer, err := s.grpc.ModelInfer(ctx, message)
	if err != nil {
		return nil, err
	}
	if len(answer.RawOutputContents) != len(answer.Outputs) {
		return nil, fmt.Errorf("%d outputs with %d contents", len(answer.Outputs), len(answer.RawOutputContents))
	}
	var list []edgewise.Tensor
	for i, out := range answer.Outputs {
		kind, _ := edgewise.ParseDataType(out.Datatype)
		list = append(list, edgewise.Tensor{
			Name: out.Name, Type: kind, Shape: append(edgewise.Shape{}, out.Shape...),
			Data: answer.RawOutputContents[i],
		})
	}
	return list, nil
}
