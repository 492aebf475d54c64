package grpcapi

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/api/inference/wire"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// service has a method for each call. ModelInfer and ModelStreamInfer are left out: description replaces them.
type service struct {
	inference.UnimplementedGRPCInferenceServiceServer
	*Server
}

// description is the generated description of the service, with other handlers for the three calls whose messages may
// be large.
func (s *Server) description() *grpc.ServiceDesc {
	d := inference.GRPCInferenceService_ServiceDesc
	d.Methods, d.Streams = slices.Clone(d.Methods), slices.Clone(d.Streams)
	for i := range d.Methods {
		switch d.Methods[i].MethodName {
		case "ModelInfer":
			d.Methods[i].Handler = s.handleInfer
		case "RepositoryModelLoad":
			d.Methods[i].Handler = s.handleLoad
		}
		handler, method := d.Methods[i].Handler, "/"+d.ServiceName+"/"+d.Methods[i].MethodName
		d.Methods[i].Handler = func(
			srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor,
		) (any, error) {
			return handler(srv, ctx, s.decoding(ctx, method, decode), interceptor)
		}
	}
	for i := range d.Streams {
		if d.Streams[i].StreamName == "ModelStreamInfer" {
			d.Streams[i].Handler = func(_ any, stream grpc.ServerStream) error { return s.stream(stream) }
		}
	}
	return &d
}

// ServerLive tells whether the server is live.
func (s *service) ServerLive(context.Context, *inference.ServerLiveRequest) (*inference.ServerLiveResponse, error) {
	return &inference.ServerLiveResponse{Live: s.deps.Engine.Live()}, nil
}

// ServerReady tells whether the server accepts requests and every wanted model is ready.
func (s *service) ServerReady(context.Context, *inference.ServerReadyRequest) (*inference.ServerReadyResponse, error) {
	return &inference.ServerReadyResponse{Ready: s.deps.Engine.Ready()}, nil
}

// ModelReady tells whether a model is ready. An unknown model is not ready.
func (s *service) ModelReady(_ context.Context, req *inference.ModelReadyRequest) (*inference.ModelReadyResponse,
	error,
) {
	id, err := s.model(req.GetName(), req.GetVersion())
	if err == nil {
		err = s.deps.Engine.VersionReady(id)
	}
	if err != nil && edgewise.KindOf(err) == edgewise.Invalid {
		return nil, err
	}
	return &inference.ModelReadyResponse{Ready: err == nil}, nil
}

// ServerMetadata returns the name, version and extensions of the server.
func (s *service) ServerMetadata(context.Context, *inference.ServerMetadataRequest) (*inference.ServerMetadataResponse,
	error,
) {
	return &inference.ServerMetadataResponse{Name: s.deps.Name, Version: s.deps.Version, Extensions: kserve.Extensions()},
		nil
}

// ModelMetadata returns the signature of a model.
func (s *service) ModelMetadata(_ context.Context, req *inference.ModelMetadataRequest) (
	*inference.ModelMetadataResponse, error,
) {
	v, ready, err := s.version(req.GetName(), req.GetVersion())
	if err != nil {
		return nil, err
	}
	return translate(kserve.NewModelMetadata(v, ready), &inference.ModelMetadataResponse{})
}

// ModelConfig returns a model's configuration.
func (s *service) ModelConfig(_ context.Context, req *inference.ModelConfigRequest) (*inference.ModelConfigResponse,
	error,
) {
	v, _, err := s.version(req.GetName(), req.GetVersion())
	if err != nil {
		return nil, err
	}
	config, err := translate(v.Model, &inference.ModelConfig{})
	return &inference.ModelConfigResponse{Config: config}, err
}

func (s *service) version(name, version string) (*edgewise.Version, []int64, error) {
	id, err := s.model(name, version)
	if err != nil {
		return nil, nil, err
	}
	return s.deps.Engine.Version(id)
}

// ModelStatistics returns the statistics of a model, or of all models without a name.
func (s *service) ModelStatistics(_ context.Context, req *inference.ModelStatisticsRequest) (
	*inference.ModelStatisticsResponse, error,
) {
	var id edgewise.ModelID
	if req.GetName() != "" || req.GetVersion() != "" {
		var err error
		if id, err = s.model(req.GetName(), req.GetVersion()); err != nil {
			return nil, err
		}
	}
	list, err := s.deps.Engine.Statistics(id)
	if err != nil {
		return nil, err
	}
	return translate(kserve.NewStatisticsBody(list), &inference.ModelStatisticsResponse{})
}

// model returns the version that a call names, by its number, by a label, or by neither.
func (s *Server) model(name, version string) (edgewise.ModelID, error) {
	id, label, err := wire.ParseModel(name, version)
	if err != nil {
		return id, err
	}
	return s.labelled(id, label)
}

// labelled returns the version of id's model that a label points to now, and id itself when label is empty. Errors:
// Invalid, as for a version that is neither a number nor a label.
func (s *Server) labelled(id edgewise.ModelID, label string) (edgewise.ModelID, error) {
	if label == "" {
		return id, nil
	}
	if s.deps.Labelled != nil {
		id.Version = s.deps.Labelled(id.Name, label)
	}
	if id.Version == 0 {
		return id, wire.NoVersion(label)
	}
	return id, nil
}

// translate converts the body of a REST response to a message: the protocol gives members the same names in both.
// Members that the message lacks are left out.
func translate[T proto.Message](body any, into T) (T, error) {
	const op = "grpcapi.translate"
	text, err := json.Marshal(body)
	if err != nil {
		return into, edgewise.Errorf(op, edgewise.Internal, "encoding the answer: %w", err)
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, into); err != nil {
		return into, edgewise.Errorf(op, edgewise.Internal, "the answer has no gRPC form: %w", err)
	}
	return into, nil
}

// watchEvery is the interval at which a watcher of the health service is told changes.
const watchEvery = time.Second

// health is the standard health service: SERVING while the server is ready. Its services are the whole server, with the
// empty name, and the inference service.
type health struct {
	grpc_health_v1.UnimplementedHealthServer
	server *Server
}

func (h *health) status(service string) grpc_health_v1.HealthCheckResponse_ServingStatus {
	switch {
	case service != "" && service != inference.GRPCInferenceService_ServiceDesc.ServiceName:
		return grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN
	case h.server.deps.Engine.Ready():
		return grpc_health_v1.HealthCheckResponse_SERVING
	}
	return grpc_health_v1.HealthCheckResponse_NOT_SERVING
}

// Check returns the present status. The code is NOT_FOUND for an unknown service.
func (h *health) Check(_ context.Context, req *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse,
	error,
) {
	st := h.status(req.GetService())
	if st == grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN {
		return nil, status.Errorf(codes.NotFound, "unknown service %.200q", req.GetService())
	}
	return &grpc_health_v1.HealthCheckResponse{Status: st}, nil
}

// Watch sends the present status and every change, until the client leaves or the server stops.
func (h *health) Watch(req *grpc_health_v1.HealthCheckRequest,
	stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse],
) error {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	sent := grpc_health_v1.HealthCheckResponse_UNKNOWN
	for {
		if now := h.status(req.GetService()); now != sent {
			if err := stream.Send(&grpc_health_v1.HealthCheckResponse{Status: now}); err != nil {
				return err
			}
			sent = now
		}
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-h.server.draining:
			return statusOf(errStopping()).Err()
		case <-ticker.C:
		}
	}
}
