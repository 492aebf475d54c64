package grpcapi

import (
	"context"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
)

// Shared memory with clients does not exist on this box: there is nothing registered, nothing to forget, and whoever
// registers is told so.

func noRegion(kind, name string) error {
	if name == "" {
		return nil
	}
	return edgewise.Errorf("grpcapi.noRegion", edgewise.NotFound, "Unable to find %s shared memory region: '%.200s'", kind, name)
}

func noRegister() error {
	return edgewise.Errorf("grpcapi.noRegister", edgewise.Unsupported, "shared memory with clients is not supported: send tensors in the message")
}

// SystemSharedMemoryStatus lists no regions.
func (*service) SystemSharedMemoryStatus(_ context.Context, req *inference.SystemSharedMemoryStatusRequest) (*inference.SystemSharedMemoryStatusResponse, error) {
	return &inference.SystemSharedMemoryStatusResponse{}, noRegion("system", req.GetName())
}

// SystemSharedMemoryRegister refuses.
func (*service) SystemSharedMemoryRegister(context.Context, *inference.SystemSharedMemoryRegisterRequest) (*inference.SystemSharedMemoryRegisterResponse, error) {
	return nil, noRegister()
}

// SystemSharedMemoryUnregister refuses.
func (*service) SystemSharedMemoryUnregister(context.Context, *inference.SystemSharedMemoryUnregisterRequest) (*inference.SystemSharedMemoryUnregisterResponse, error) {
	return nil, noRegister()
}

// CudaSharedMemoryStatus lists no regions.
func (*service) CudaSharedMemoryStatus(_ context.Context, req *inference.CudaSharedMemoryStatusRequest) (*inference.CudaSharedMemoryStatusResponse, error) {
	return &inference.CudaSharedMemoryStatusResponse{}, noRegion("CUDA", req.GetName())
}

// CudaSharedMemoryRegister refuses.
func (*service) CudaSharedMemoryRegister(context.Context, *inference.CudaSharedMemoryRegisterRequest) (*inference.CudaSharedMemoryRegisterResponse, error) {
	return nil, noRegister()
}

// CudaSharedMemoryUnregister refuses.
func (*service) CudaSharedMemoryUnregister(context.Context, *inference.CudaSharedMemoryUnregisterRequest) (*inference.CudaSharedMemoryUnregisterResponse, error) {
	return nil, noRegister()
}
