package grpcapi

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/edgewise-ai/edgewise/api/inference"
)

// wantText compares a message with its text form.
func wantText(t *testing.T, got proto.Message, err error, want string) {
	t.Helper()
	wanted := got.ProtoReflect().New().Interface()
	if bad := prototext.Unmarshal([]byte(want), wanted); bad != nil {
		t.Fatal(bad)
	}
	if err != nil || !proto.Equal(got, wanted) {
		t.Errorf("got %v, %v; want %s", got, err, want)
	}
}

func TestMetadataCalls(t *testing.T) {
	ts := start(t, nil)
	ctx, c := t.Context(), ts.client
	live, err := c.ServerLive(ctx, &inference.ServerLiveRequest{})
	wantText(t, live, err, `live: true`)
	ready, err := c.ServerReady(ctx, &inference.ServerReadyRequest{})
	wantText(t, ready, err, `ready: true`)
	server, err := c.ServerMetadata(ctx, &inference.ServerMetadataRequest{})
	wantText(t, server, err,
		`name: "edgewise" version: "1.2.3" extensions: ["classification", "sequence", "model_repository", `+
			`"model_repository(unload_dependents)", "schedule_policy", "model_configuration", "system_shared_memory", `+
			`"cuda_shared_memory", "binary_tensor_data", "parameters", "statistics", "trace", "logging"]`)
	model, err := c.ModelMetadata(ctx, &inference.ModelMetadataRequest{Name: "echo"})
	wantText(t, model, err,
		`name: "echo" versions: ["1", "3"] platform: "onnxruntime_onnx" inputs: {name: "x" datatype: "FP32" shape: [-1, `+
			`-1]} outputs: {name: "y" datatype: "BYTES" shape: [-1, 1099511627776]}`)
	index, err := c.RepositoryIndex(ctx, &inference.RepositoryIndexRequest{})
	wantText(t, index, err,
		`models: {name: "echo" version: "3" state: "READY"} models: {name: "cold" version: "1" state: "UNAVAILABLE" `+
			`reason: "unloaded"} models: {name: "new"}`)
	index, err = c.RepositoryIndex(ctx, &inference.RepositoryIndexRequest{Ready: true})
	wantText(t, index, err, `models: {name: "echo" version: "3" state: "READY"}`)
	stats := `model_stats: {name: "echo" version: "3" last_inference: 1234 inference_count: 7 execution_count: 3
		inference_stats: {success: {count: 2 ns: 5} fail: {} queue: {} compute_input: {} compute_infer: {} compute_output: {}
		cache_hit: {} cache_miss: {count: 1 ns: 9}}
		batch_stats: {batch_size: 4 compute_input: {} compute_infer: {count: 1 ns: 6} compute_output: {}}}`
	for _, req := range []*inference.ModelStatisticsRequest{{}, {Name: "echo"}, {Name: "echo", Version: "3"}} {
		got, err := c.ModelStatistics(ctx, req)
		wantText(t, got, err, stats)
	}
	for _, test := range []struct {
		name, version string
		code          codes.Code
		text          string
	}{
		{"dog", "", codes.NotFound, "Request for unknown model: 'dog' is not found"},
		{"echo", "9", codes.NotFound, "Request for unknown model: 'echo' version 9 is not found"},
		{"echo", "x", codes.InvalidArgument, "failed to get model version from specified version string 'x'"},
		{"", "", codes.NotFound, "Request for unknown model: '' is not found"},
	} {
		_, err := c.ModelMetadata(ctx, &inference.ModelMetadataRequest{Name: test.name, Version: test.version})
		wantStatus(t, err, test.code, test.text)
		_, err = c.ModelConfig(ctx, &inference.ModelConfigRequest{Name: test.name, Version: test.version})
		wantStatus(t, err, test.code, test.text)
	}
	_, err = c.ModelStatistics(ctx, &inference.ModelStatisticsRequest{Name: "dog"})
	wantStatus(t, err, codes.InvalidArgument, "requested model 'dog' is not available")
	_, err = c.ModelStatistics(ctx, &inference.ModelStatisticsRequest{Name: "echo", Version: "x"})
	wantStatus(t, err, codes.InvalidArgument, "failed to get model version")
	for _, test := range []struct {
		name, version string
		want          bool
	}{
		{"echo", "", true},
		{"echo", "3", true},
		{"echo", "9", false},
		{"cold", "", false},
		{"dog", "", false},
		{"dog", "1", false},
		{"", "", false},
	} {
		got, err := c.ModelReady(ctx, &inference.ModelReadyRequest{Name: test.name, Version: test.version})
		if err != nil || got.Ready != test.want {
			t.Errorf("%q version %q: ready %v, %v", test.name, test.version, got, err)
		}
	}
	_, err = c.ModelReady(ctx, &inference.ModelReadyRequest{Name: "echo", Version: "x"})
	wantStatus(t, err, codes.InvalidArgument, "failed to get model version from specified version string 'x'")
}

// TestModelConfigIsThatOfREST holds every member of the REST answer against the message.
func TestModelConfigIsThatOfREST(t *testing.T) {
	ts := start(t, nil)
	got, err := ts.client.ModelConfig(t.Context(), &inference.ModelConfigRequest{Name: "echo", Version: "3"})
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, got.Config, nil, `name: "echo" platform: "onnxruntime_onnx" backend: "onnxruntime"
		max_batch_size: 8 version_policy: {latest: {num_versions: 2}}
		input: {name: "x" data_type: TYPE_FP32 dims: -1 optional: true reshape: {shape: [1, -1]}}
		output: {name: "y" data_type: TYPE_STRING dims: 1099511627776 label_filename: "labels.txt"}
		instance_group: {name: "echo_0" kind: KIND_CPU count: 2 rate_limiter: {priority: 2}}
		dynamic_batching: {preferred_batch_size: [4, 8] max_queue_delay_microseconds: 1099511627776 preserve_ordering: true}
		metric_tags: {key: "site" value: "roof"} parameters: {key: "k" value: {string_value: "v"}}
		model_warmup: {name: "w" batch_size: 1 inputs: {key: "x" value: {data_type: TYPE_FP32 dims: 1 zero_data: true}}}
		response_cache: {enable: true}`)
	text, err := json.Marshal(echoModel())
	if err != nil {
		t.Fatal(err)
	}
	var rest map[string]any
	if err := json.Unmarshal(text, &rest); err != nil {
		t.Fatal(err)
	}
	for name := range rest {
		if got.Config.ProtoReflect().Descriptor().Fields().ByTextName(name) == nil {
			t.Errorf("the message has no field %s", name)
		}
	}
}

func TestRepositoryCalls(t *testing.T) {
	ts := start(t, nil)
	ctx, c := t.Context(), ts.client
	flag := func(v bool) *inference.ModelRepositoryParameter {
		return &inference.ModelRepositoryParameter{ParameterChoice: &inference.ModelRepositoryParameter_BoolParam{
			BoolParam: v,
		}}
	}
	text := &inference.ModelRepositoryParameter{ParameterChoice: &inference.ModelRepositoryParameter_StringParam{
		StringParam: "{}",
	}}
	if _, err := c.RepositoryModelLoad(ctx, &inference.RepositoryModelLoadRequest{ModelName: "echo"}); err != nil ||
		!ts.engine.loaded.Load() {
		t.Errorf("load: %v", err)
	}
	unload := &inference.RepositoryModelUnloadRequest{
		ModelName:  "echo",
		Parameters: map[string]*inference.ModelRepositoryParameter{"unload_dependents": flag(true)},
	}
	if _, err := c.RepositoryModelUnload(ctx, unload); err != nil || ts.engine.loaded.Load() ||
		!ts.engine.dependents.Load() {
		t.Errorf("unload: %v", err)
	}
	for _, test := range []struct {
		repository, model, key string
		value                  *inference.ModelRepositoryParameter
		code                   codes.Code
		load, unload           string
	}{
		{
			"r", "echo", "", nil, codes.Unimplemented, "'repository_name' specification is not supported",
			"'repository_name' specification is not supported",
		},
		{"", "dog", "", nil, codes.NotFound, "failed to load 'dog'", "Request for unknown model: 'dog' is not found"},
		{"", "a/b", "", nil, codes.InvalidArgument, "must not contain path traversal characters", ""},
		{"", "echo", "x", text, codes.InvalidArgument, "unrecognized load parameter 'x'.", ""},
	} {
		values := map[string]*inference.ModelRepositoryParameter{}
		if test.key != "" {
			values[test.key] = test.value
		}
		_, err := c.RepositoryModelLoad(ctx, &inference.RepositoryModelLoadRequest{
			RepositoryName: test.repository,
			ModelName:      test.model, Parameters: values,
		})
		wantStatus(t, err, test.code, test.load)
		_, err = c.RepositoryModelUnload(ctx, &inference.RepositoryModelUnloadRequest{
			RepositoryName: test.repository,
			ModelName:      test.model, Parameters: values,
		})
		if test.unload != "" { // otherwise it is none of unload's business
			wantStatus(t, err, test.code, test.unload)
		}
	}
	file := &inference.ModelRepositoryParameter{ParameterChoice: &inference.ModelRepositoryParameter_BytesParam{
		BytesParam: []byte("onnx"),
	}}
	load := &inference.RepositoryModelLoadRequest{
		ModelName:  "echo",
		Parameters: map[string]*inference.ModelRepositoryParameter{"config": text, "file:1/model.onnx": file},
	}
	if _, err := c.RepositoryModelLoad(ctx, load); err != nil {
		t.Error(err)
	}
	if o := ts.engine.override.Load(); string(o.Config) != "{}" || len(o.Files) != 1 ||
		string(o.Files["1/model.onnx"]) != "onnx" {
		t.Errorf("the engine was given %q", o)
	}
	for key, value := range map[string]*inference.ModelRepositoryParameter{"config": file, "file:1/model.onnx": text} {
		_, err := c.RepositoryModelLoad(ctx, &inference.RepositoryModelLoadRequest{
			ModelName:  "echo",
			Parameters: map[string]*inference.ModelRepositoryParameter{key: value},
		})
		wantStatus(t, err, codes.InvalidArgument, "invalid value type for load parameter '"+key+"', expected")
	}
	unload.Parameters["unload_dependents"] = text
	_, err := c.RepositoryModelUnload(ctx, unload)
	wantStatus(t, err, codes.InvalidArgument, "invalid value type for 'unload_dependents' parameter, expected bool_param.")
	_, err = c.RepositoryIndex(ctx, &inference.RepositoryIndexRequest{RepositoryName: "r"})
	wantStatus(t, err, codes.Unimplemented, "'repository_name' specification is not supported")
}

func TestRegionCalls(t *testing.T) {
	ts := start(t, nil)
	ctx, c := t.Context(), ts.client
	register := &inference.SystemSharedMemoryRegisterRequest{Name: "r", Key: "/r", ByteSize: 8}
	if _, err := c.SystemSharedMemoryRegister(ctx, register); err != nil {
		t.Error(err)
	}
	_, err := c.SystemSharedMemoryRegister(ctx, register)
	wantStatus(t, err, codes.AlreadyExists, "shared memory region 'r' already in manager")
	_, err = c.SystemSharedMemoryRegister(ctx, &inference.SystemSharedMemoryRegisterRequest{Name: "s", ByteSize: 1 << 63})
	wantStatus(t, err, codes.InvalidArgument, "want at most")
	_, err = c.SystemSharedMemoryRegister(ctx, &inference.SystemSharedMemoryRegisterRequest{Name: "s", Offset: 1 << 63})
	wantStatus(t, err, codes.InvalidArgument, "want at most")
	if _, err := c.SystemSharedMemoryUnregister(ctx, &inference.SystemSharedMemoryUnregisterRequest{
		Name: "r",
	}); err != nil {
		t.Error(err)
	}
	_, err = c.SystemSharedMemoryStatus(ctx, &inference.SystemSharedMemoryStatusRequest{Name: "r"})
	wantStatus(t, err, codes.NotFound, "Unable to find system shared memory region: 'r'")
	cuda, err := c.CudaSharedMemoryStatus(ctx, &inference.CudaSharedMemoryStatusRequest{})
	wantText(t, cuda, err, "")
	_, err = c.CudaSharedMemoryStatus(ctx, &inference.CudaSharedMemoryStatusRequest{Name: "r"})
	wantStatus(t, err, codes.NotFound, "Unable to find cuda shared memory region: 'r'")
	_, err = c.CudaSharedMemoryRegister(ctx, &inference.CudaSharedMemoryRegisterRequest{Name: "r"})
	wantStatus(t, err, codes.InvalidArgument, "failed to register CUDA shared memory region: 'r', GPUs not supported")
	gone, err := c.CudaSharedMemoryUnregister(ctx, &inference.CudaSharedMemoryUnregisterRequest{})
	wantText(t, gone, err, "")
}

func TestHealthFollowsReady(t *testing.T) {
	ts := start(t, nil)
	c := grpc_health_v1.NewHealthClient(ts.conn)
	watch, err := c.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, ready := range []bool{true, false} {
		ts.engine.notReady.Store(!ready)
		want := grpc_health_v1.HealthCheckResponse_NOT_SERVING
		if ready {
			want = grpc_health_v1.HealthCheckResponse_SERVING
		}
		for _, service := range []string{"", "inference.GRPCInferenceService"} {
			got, err := c.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
			if err != nil || got.Status != want {
				t.Errorf("%q: %v, %v", service, got, err)
			}
		}
		if got, err := watch.Recv(); err != nil || got.Status != want {
			t.Errorf("watch: %v, %v", got, err)
		}
	}
	_, err = c.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "x"})
	wantStatus(t, err, codes.NotFound, `unknown service "x"`)
}

func TestReflectionDescribesTheService(t *testing.T) {
	ts := start(t, nil)
	stream, err := grpc_reflection_v1.NewServerReflectionClient(ts.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := &grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{
			FileContainingSymbol: "inference.GRPCInferenceService",
		},
	}
	if err := stream.Send(ask); err != nil {
		t.Fatal(err)
	}
	got, err := stream.Recv()
	if err != nil || len(got.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("got %v, %v", got, err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
}

func TestRefusedCallsAreLoggedAsDetails(t *testing.T) {
	ts := start(t, nil)
	_, err := ts.client.RepositoryModelLoad(t.Context(), &inference.RepositoryModelLoadRequest{ModelName: "none"})
	const want = `level=DEBUG msg="call failed" method=/inference.GRPCInferenceService/RepositoryModelLoad kind=not_found ` +
		`error="failed to load 'none', failed to poll from model repository"`
	if err == nil || !strings.Contains(ts.log.String(), want) {
		t.Errorf("error %v, log %q, want %q", err, ts.log, want)
	}
}
