// Package grpcapi is the gRPC frontend: the inference protocol's service, the standard health service and server
// reflection.
//
// Most responses are the bodies of package kserve, which the REST frontend sends too, translated to the protocol's
// messages. The two calls that carry tensors have code of their own: their requests are parsed in the memory of the
// message, and their responses are written from the memory of the runtime (codec.go, infer.go, stream.go).
package grpcapi
