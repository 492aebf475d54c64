package appliance

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/inference"
)

// sameCall is a call of gRPC and the route of REST that does the same.
type sameCall struct {
	name         string // of the method, with what sets the message apart from others of it
	call         func(ctx context.Context, c inference.GRPCInferenceServiceClient) error
	method, path string
	body         any
}

// only makes a call of a method whose answer nobody looks at.
func only[Q, A, O any](f func(c inference.GRPCInferenceServiceClient, ctx context.Context, req Q, o ...O) (A, error),
	req Q,
) func(context.Context, inference.GRPCInferenceServiceClient) error {
	return func(ctx context.Context, c inference.GRPCInferenceServiceClient) error {
		_, err := f(c, ctx, req)
		return err
	}
}

func sameCalls() []sameCall {
	type C = inference.GRPCInferenceServiceClient
	level := map[string]*inference.TraceSettingRequest_SettingValue{"trace_level": {Value: []string{"OFF"}}}
	verbose := map[string]*inference.LogSettingsRequest_SettingValue{
		"log_verbose_level": {ParameterChoice: &inference.LogSettingsRequest_SettingValue_Uint32Param{}},
	}
	stream := func(ctx context.Context, c C) error {
		s, err := c.ModelStreamInfer(ctx)
		if err == nil {
			err = s.Send(&inference.ModelInferRequest{ModelName: "none"})
		}
		if err != nil && !errors.Is(err, io.EOF) { // io.EOF: the stream has ended, and Recv says why
			return err
		}
		answer, err := s.Recv()
		if strings.Contains(answer.GetErrorMessage(), "is bound to the models") { // an error of a request does not end the stream
			return status.Error(codes.PermissionDenied, answer.GetErrorMessage())
		}
		return err
	}
	return []sameCall{
		{"ServerLive", only(C.ServerLive, &inference.ServerLiveRequest{}), "GET", "/v2/health/live", nil},
		{"ServerReady", only(C.ServerReady, &inference.ServerReadyRequest{}), "GET", "/v2/health/ready", nil},
		{"ServerMetadata", only(C.ServerMetadata, &inference.ServerMetadataRequest{}), "GET", "/v2", nil},
		{"ModelReady", only(C.ModelReady, &inference.ModelReadyRequest{Name: "none"}), "GET", "/v2/models/none/ready", nil},
		{"ModelMetadata", only(C.ModelMetadata, &inference.ModelMetadataRequest{Name: "none"}), "GET", "/v2/models/none", nil},
		{"ModelConfig", only(C.ModelConfig, &inference.ModelConfigRequest{Name: "none"}), "GET", "/v2/models/none/config", nil},
		{"ModelInfer", only(C.ModelInfer, &inference.ModelInferRequest{ModelName: "none"}), "POST", "/v2/models/none/infer", map[string]any{}},
		{"ModelStreamInfer", stream, "POST", "/v2/models/none/infer", map[string]any{}},
		{"ModelStatistics of one", only(C.ModelStatistics, &inference.ModelStatisticsRequest{Name: "none"}), "GET", "/v2/models/none/stats", nil},
		{"ModelStatistics of all", only(C.ModelStatistics, &inference.ModelStatisticsRequest{}), "GET", "/v2/models/stats", nil},
		{
			"ModelStatistics of all versions 1", only(C.ModelStatistics, &inference.ModelStatisticsRequest{Version: "1"}), "GET",
			"/v2/models/stats", nil,
		},
		{"RepositoryIndex", only(C.RepositoryIndex, &inference.RepositoryIndexRequest{}), "POST", "/v2/repository/index", nil},
		{
			"RepositoryModelLoad", only(C.RepositoryModelLoad, &inference.RepositoryModelLoadRequest{ModelName: "none"}), "POST",
			"/v2/repository/models/none/load", nil,
		},
		{
			"RepositoryModelUnload", only(C.RepositoryModelUnload, &inference.RepositoryModelUnloadRequest{ModelName: "none"}),
			"POST", "/v2/repository/models/none/unload", nil,
		},
		{
			"SystemSharedMemoryStatus", only(C.SystemSharedMemoryStatus, &inference.SystemSharedMemoryStatusRequest{}), "GET",
			"/v2/systemsharedmemory/status", nil,
		},
		{
			"SystemSharedMemoryRegister", only(C.SystemSharedMemoryRegister, &inference.SystemSharedMemoryRegisterRequest{Name: "r"}),
			"POST", "/v2/systemsharedmemory/region/r/register",
			map[string]any{},
		},
		{"SystemSharedMemoryUnregister", only(C.SystemSharedMemoryUnregister,
			&inference.SystemSharedMemoryUnregisterRequest{}), "POST", "/v2/systemsharedmemory/unregister", nil},
		{
			"CudaSharedMemoryStatus", only(C.CudaSharedMemoryStatus, &inference.CudaSharedMemoryStatusRequest{}), "GET",
			"/v2/cudasharedmemory/status", nil,
		},
		{
			"CudaSharedMemoryRegister", only(C.CudaSharedMemoryRegister, &inference.CudaSharedMemoryRegisterRequest{Name: "r"}),
			"POST", "/v2/cudasharedmemory/region/r/register",
			map[string]any{},
		},
		{
			"CudaSharedMemoryUnregister", only(C.CudaSharedMemoryUnregister, &inference.CudaSharedMemoryUnregisterRequest{}),
			"POST", "/v2/cudasharedmemory/unregister", nil,
		},
		{"TraceSetting read", only(C.TraceSetting, &inference.TraceSettingRequest{}), "GET", "/v2/trace/setting", nil},
		{
			"TraceSetting of one read", only(C.TraceSetting, &inference.TraceSettingRequest{ModelName: "none"}), "GET",
			"/v2/models/none/trace/setting", nil,
		},
		{
			"TraceSetting changed", only(C.TraceSetting, &inference.TraceSettingRequest{Settings: level}), "POST",
			"/v2/trace/setting",
			map[string]any{"trace_level": []string{"OFF"}},
		},
		{"TraceSetting of one changed", only(C.TraceSetting, &inference.TraceSettingRequest{
			ModelName: "none",
			Settings:  level,
		}), "POST", "/v2/models/none/trace/setting", map[string]any{"trace_level": []string{"OFF"}}},
		{"LogSettings read", only(C.LogSettings, &inference.LogSettingsRequest{}), "GET", "/v2/logging", nil},
		{
			"LogSettings changed", only(C.LogSettings, &inference.LogSettingsRequest{Settings: verbose}), "POST", "/v2/logging",
			map[string]any{"log_verbose_level": 0},
		},
	}
}

// TestACallNeedsTheRightsOfItsRoute asks for everything over gRPC and over REST with the same keys: what is denied by one is denied
// by the other.
func TestACallNeedsTheRightsOfItsRoute(t *testing.T) {
	h := runBox(t, nil)
	anna := h.claim()
	client := h.callers(insecure.NewCredentials())
	calls := sameCalls()
	for _, m := range inference.GRPCInferenceService_ServiceDesc.Methods {
		if !slices.ContainsFunc(calls, func(c sameCall) bool { return strings.Fields(c.name)[0] == m.MethodName }) {
			t.Errorf("%s is not among the calls", m.MethodName)
		}
	}
	nobody := h.visitor()
	for who, key := range map[string]*visitor{
		"nobody":       nobody,
		"read":         h.key(anna, admin.KeyNew{Name: "r", Rights: []string{"read"}}),
		"infer":        h.key(anna, admin.KeyNew{Name: "i", Rights: []string{"infer"}}),
		"operate":      h.key(anna, admin.KeyNew{Name: "o", Rights: []string{"operate"}}),
		"admin":        h.key(anna, admin.KeyNew{Name: "a", Rights: []string{"admin"}}),
		"infer one":    h.key(anna, admin.KeyNew{Name: "i1", Rights: []string{"infer"}, Models: []string{"none"}}),
		"read one":     h.key(anna, admin.KeyNew{Name: "r1", Rights: []string{"read"}, Models: []string{"none"}}),
		"read another": h.key(anna, admin.KeyNew{Name: "r2", Rights: []string{"read", "infer"}, Models: []string{"other"}}),
	} {
		for _, c := range calls {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if secret := key.header.Get("Authorization"); secret != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "authorization", secret)
			}
			code := status.Code(c.call(ctx, client))
			cancel()
			rest, text := key.ask(c.method, c.path, c.body, nil)
			refused := code == codes.PermissionDenied || code == codes.Unauthenticated
			if refused != (rest == 401 || rest == 403) {
				t.Errorf("%s with %s: gRPC says %v, REST %d %s", c.name, who, code, rest, text)
			}
		}
	}
}
