package grpcapi

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/edgewise-ai/edgewise/api/inference"
)

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
