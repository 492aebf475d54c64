package kserve

// Region is an entry of the answer about registered shared memory.
type Region struct {
	Name     string `json:"name"`
	Key      string `json:"key"`
	Offset   int64  `json:"offset"`    // bytes
	ByteSize int64  `json:"byte_size"` // bytes
}

// RegisterRequest is the body that registers a region. Key and ByteSize are required.
type RegisterRequest struct {
	Key      *string `json:"key"`
	Offset   int64   `json:"offset"`    // bytes
	ByteSize *int64  `json:"byte_size"` // bytes
}
