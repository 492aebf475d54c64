package edgewise

// Region is a part of a POSIX shared memory object, registered under a name by a client on the same machine.
type Region struct {
	Name   string
	Key    string // of the object, with or without a leading slash, as the client gave it
	Offset int64  // of the region in the object, in bytes
	Size   int64  // bytes
}

// Window is the part of a Region that one tensor takes. The region stays open until Close, even when it is
// unregistered before. A Window is used by one goroutine and closed once.
type Window interface {
	// Size returns the window's bytes.
	Size() int64
	// Read copies the window into p, which has its size. Errors: Invalid (the client has made the object smaller).
	Read(p []byte) error
	// Write copies p to the beginning of the window. Errors: Invalid (p is larger, or the object has become smaller).
	Write(p []byte) error
	// Close ends the use of the region.
	Close()
}
