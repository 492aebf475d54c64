// Package api is what crosses the border of the box. It holds the OpenAPI document of the administration routes.
package api

import _ "embed"

// OpenAPI is the document of everything below /api/v1, as YAML. Tests hold the routes and their answers against it.
//
//go:embed openapi.yaml
var OpenAPI []byte
