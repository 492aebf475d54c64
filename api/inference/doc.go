// Package inference is the messages and the service of the inference protocol over gRPC, generated from the .proto
// files beside it, which are also what clients in other languages are generated from. "make proto" makes the Go files
// again; a test proves that they are what the pinned generators make.
package inference
