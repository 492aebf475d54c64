package grpcapi

import (
	"context"
	"math"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
)

// SystemSharedMemoryStatus lists a region, or all.
func (s *service) SystemSharedMemoryStatus(_ context.Context, req *inference.SystemSharedMemoryStatusRequest) (
	*inference.SystemSharedMemoryStatusResponse, error,
) {
	list, err := s.deps.Shared.Status(req.GetName())
	if err != nil {
		return nil, err
	}
	regions := make(map[string]*inference.SystemSharedMemoryStatusResponse_RegionStatus, len(list))
	for _, r := range list {
		regions[r.Name] = &inference.SystemSharedMemoryStatusResponse_RegionStatus{
			Name: r.Name, Key: r.Key,
			Offset: uint64(r.Offset), ByteSize: uint64(r.Size),
		}
	}
	return &inference.SystemSharedMemoryStatusResponse{Regions: regions}, nil
}

// SystemSharedMemoryRegister gives a part of a shared memory object a name.
func (s *service) SystemSharedMemoryRegister(_ context.Context, req *inference.SystemSharedMemoryRegisterRequest) (
	*inference.SystemSharedMemoryRegisterResponse, error,
) {
	if req.GetOffset() > math.MaxInt64 || req.GetByteSize() > math.MaxInt64 {
		return nil, edgewise.Errorf("grpcapi.SystemSharedMemoryRegister", edgewise.Invalid,
			"shared memory region '%.200s': offset %d and byte_size %d: want at most %d", req.GetName(), req.GetOffset(),
			req.GetByteSize(), int64(math.MaxInt64))
	}
	region := edgewise.Region{
		Name: req.GetName(), Key: req.GetKey(), Offset: int64(req.GetOffset()),
		Size: int64(req.GetByteSize()),
	}
	return &inference.SystemSharedMemoryRegisterResponse{}, s.deps.Shared.Register(region)
}

// SystemSharedMemoryUnregister forgets a region, or all.
func (s *service) SystemSharedMemoryUnregister(_ context.Context, req *inference.SystemSharedMemoryUnregisterRequest) (
	*inference.SystemSharedMemoryUnregisterResponse, error,
) {
	return &inference.SystemSharedMemoryUnregisterResponse{}, s.deps.Shared.Unregister(req.GetName())
}

// CudaSharedMemoryStatus returns an empty list: memory of a GPU is not shared.
func (*service) CudaSharedMemoryStatus(_ context.Context, req *inference.CudaSharedMemoryStatusRequest) (
	*inference.CudaSharedMemoryStatusResponse, error,
) {
	if name := req.GetName(); name != "" {
		return nil, edgewise.Errorf("grpcapi.CudaSharedMemoryStatus", edgewise.NotFound,
			"Unable to find cuda shared memory region: '%.200s'", name)
	}
	return &inference.CudaSharedMemoryStatusResponse{}, nil
}

// CudaSharedMemoryRegister refuses, in the words of a Triton without GPUs.
func (s *service) CudaSharedMemoryRegister(_ context.Context, req *inference.CudaSharedMemoryRegisterRequest) (
	*inference.CudaSharedMemoryRegisterResponse, error,
) {
	if err := s.deps.Shared.Allowed(); err != nil {
		return nil, err
	}
	return nil, edgewise.Errorf("grpcapi.CudaSharedMemoryRegister", edgewise.Invalid,
		"failed to register CUDA shared memory region: '%.200s', GPUs not supported", req.GetName())
}

// CudaSharedMemoryUnregister succeeds: no region is registered.
func (s *service) CudaSharedMemoryUnregister(context.Context, *inference.CudaSharedMemoryUnregisterRequest) (
	*inference.CudaSharedMemoryUnregisterResponse, error,
) {
	return &inference.CudaSharedMemoryUnregisterResponse{}, s.deps.Shared.Allowed()
}
