package grpcapi

import (
	"context"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/api/inference/wire"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// RepositoryIndex lists what the box holds.
func (s *service) RepositoryIndex(_ context.Context, req *inference.RepositoryIndexRequest) (*inference.RepositoryIndexResponse, error) {
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

// RepositoryModelLoad makes a model ready and answers when it is.
func (s *service) RepositoryModelLoad(_ context.Context, req *inference.RepositoryModelLoadRequest) (*inference.RepositoryModelLoadResponse, error) {
	if err := noRepository(req.GetRepositoryName()); err != nil {
		return nil, err
	}
	id, err := wire.ParseModel(req.GetModelName(), "")
	if err != nil {
		return nil, err
	}
	const op = "grpcapi.RepositoryModelLoad"
	for key := range req.GetParameters() {
		if key == "config" || strings.HasPrefix(key, "file:") {
			return nil, edgewise.Errorf(op, edgewise.Unsupported, "load parameter %.100q is not supported: push a new version with the files and the configuration it needs", key)
		}
		return nil, edgewise.Errorf(op, edgewise.Invalid, "unrecognized load parameter '%.100s'.", key)
	}
	return &inference.RepositoryModelLoadResponse{}, s.deps.Engine.Load(s.base, id.Name)
}

// RepositoryModelUnload stops serving a model and answers at once.
func (s *service) RepositoryModelUnload(_ context.Context, req *inference.RepositoryModelUnloadRequest) (*inference.RepositoryModelUnloadResponse, error) {
	if err := noRepository(req.GetRepositoryName()); err != nil {
		return nil, err
	}
	id, err := wire.ParseModel(req.GetModelName(), "")
	if err != nil {
		return nil, err
	}
	const op = "grpcapi.RepositoryModelUnload"
	dependents := false
	for key, value := range req.GetParameters() {
		if key != "unload_dependents" {
			return nil, edgewise.Errorf(op, edgewise.Invalid, "unrecognized unload parameter '%.100s': want unload_dependents", key)
		}
		choice, ok := value.GetParameterChoice().(*inference.ModelRepositoryParameter_BoolParam)
		if !ok {
			return nil, edgewise.Errorf(op, edgewise.Invalid, "invalid value type for '%s' parameter, expected bool_param.", key)
		}
		dependents = choice.BoolParam
	}
	return &inference.RepositoryModelUnloadResponse{}, s.deps.Engine.Unload(s.base, id.Name, dependents)
}

func noRepository(name string) error {
	if name != "" {
		return edgewise.Errorf("grpcapi.noRepository", edgewise.Unsupported, "'repository_name' specification is not supported")
	}
	return nil
}
