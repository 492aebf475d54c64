// Package grpcapi is the gRPC frontend: the inference protocol's service, the standard health service and server
// reflection.
//
// What the REST frontend answers from the bodies of package kserve this one answers from the same bodies, turned into the
// protocol's messages (translate.go). Only the two calls that carry tensors have code of their own: their messages are
// read where they arrived and written from where the runtime put the outputs (codec.go, infer.go, stream.go).
package grpcapi
