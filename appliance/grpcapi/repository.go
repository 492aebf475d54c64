package grpcapi

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// RepositoryIndex lists the versions and their states.
func (s *service) RepositoryIndex(_ context.Context, req *inference.RepositoryIndexRequest) (
	*inference.RepositoryIndexResponse, error,
) {
	if err := noRepository(req.GetRepositoryName()); err != nil {
		return nil, err
	}
	entries := []kserve.IndexEntry{}
	for _, status := range s.deps.Engine.Index() {
		if !req.GetReady() || status.State == edgewise.StateReady {
			entries = append(entries, kserve.NewIndexEntry(status))
		}
	}
	return translate(map[string]any{"models": entries}, &inference.RepositoryIndexResponse{})
}

// handleLoad is the handler of RepositoryModelLoad. Its message may hold files, so its bytes are counted until the
// response, twice: as the message and as the parsed request.
func (s *Server) handleLoad(
	api any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor,
) (any, error) {
	in := &received{arrived: arrivalOf(ctx)}
	defer in.release()
	if err := decode(in); err != nil {
		return nil, err
	}
	req := &inference.RepositoryModelLoadRequest{}
	err := s.arrived(in)
	switch {
	case err != nil:
	case !in.block.Hold(int64(len(in.bytes))):
		err = s.noMemory()
	default:
		if malformed := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(in.bytes, req); malformed != nil {
			err = edgewise.Errorf("grpcapi.handleLoad", edgewise.Invalid, "the message is not well-formed: %w", malformed)
		}
	}
	info := &grpc.UnaryServerInfo{Server: s, FullMethod: inference.GRPCInferenceService_RepositoryModelLoad_FullMethodName}
	return interceptor(ctx, req, info, func(ctx context.Context, _ any) (any, error) {
		if err != nil {
			return nil, err
		}
		return api.(*service).RepositoryModelLoad(ctx, req)
	})
}

// RepositoryModelLoad loads a model and answers when the model is ready.
func (s *service) RepositoryModelLoad(_ context.Context, req *inference.RepositoryModelLoadRequest) (
	*inference.RepositoryModelLoadResponse, error,
) {
	if err := noRepository(req.GetRepositoryName()); err != nil {
		return nil, err
	}
	if err := kserve.CheckLoadName(req.GetModelName()); err != nil {
		return nil, err
	}
	override, err := override(req.GetParameters())
	if err != nil {
		return nil, err
	}
	return &inference.RepositoryModelLoadResponse{}, s.deps.Engine.Load(s.base, req.GetModelName(), override)
}

// override reads the configuration and the files that a load gives in place of those in the model's folder.
func override(parameters map[string]*inference.ModelRepositoryParameter) (edgewise.LoadOverride, error) {
	const op = "grpcapi.RepositoryModelLoad"
	var o edgewise.LoadOverride
	for key, value := range parameters {
		path, isFile := strings.CutPrefix(key, kserve.FilePrefix)
		switch choice := value.GetParameterChoice().(type) {
		case *inference.ModelRepositoryParameter_StringParam:
			if key == "config" {
				o.Config = []byte(choice.StringParam)
				continue
			}
		case *inference.ModelRepositoryParameter_BytesParam:
			if isFile {
				if o.Files == nil {
					o.Files = map[string][]byte{}
				}
				o.Files[path] = choice.BytesParam
				continue
			}
		}
		switch {
		case key == "config":
			return o, edgewise.Errorf(op, edgewise.Invalid, "invalid value type for load parameter '%s', expected string_param.",
				key)
		case isFile:
			return o, edgewise.Errorf(op, edgewise.Invalid, "invalid value type for load parameter '%.200s', expected "+
				"bytes_param.", key)
		}
		return o, edgewise.Errorf(op, edgewise.Invalid, "unrecognized load parameter '%.100s'.", key)
	}
	return o, nil
}

// RepositoryModelUnload stops serving a model and answers at once. Unknown parameters are ignored.
func (s *service) RepositoryModelUnload(_ context.Context, req *inference.RepositoryModelUnloadRequest) (
	*inference.RepositoryModelUnloadResponse, error,
) {
	if err := noRepository(req.GetRepositoryName()); err != nil {
		return nil, err
	}
	dependents := false
	if value, ok := req.GetParameters()["unload_dependents"]; ok {
		choice, ok := value.GetParameterChoice().(*inference.ModelRepositoryParameter_BoolParam)
		if !ok {
			return nil, edgewise.Errorf("grpcapi.RepositoryModelUnload", edgewise.Invalid,
				"invalid value type for 'unload_dependents' parameter, expected bool_param.")
		}
		dependents = choice.BoolParam
	}
	return &inference.RepositoryModelUnloadResponse{}, s.deps.Engine.Unload(s.base, req.GetModelName(), dependents)
}

func noRepository(name string) error {
	if name != "" {
		return edgewise.Errorf("grpcapi.noRepository", edgewise.Unsupported,
			"'repository_name' specification is not supported")
	}
	return nil
}
