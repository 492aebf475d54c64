// Package api is what crosses the border of the box. It holds the documents that describe the APIs.
package api

import "embed"

// Documents are openapi.yaml, of everything below /api/v1, and inference.yaml, of everything below /v2: tests hold the
// routes and their answers against both; and the .proto files of gRPC, in the folder inference.
//
//go:embed openapi.yaml inference.yaml inference/grpc_service.proto inference/model_config.proto
var Documents embed.FS
