package api

import (
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

func TestTheDocumentsAreOpenAPI(t *testing.T) {
	for _, file := range []string{"openapi.yaml", "inference.yaml"} {
		t.Run(file, func(t *testing.T) { isOpenAPI(t, file) })
	}
}

func isOpenAPI(t *testing.T, file string) {
	doc, err := openapi3.NewLoader().LoadFromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context(), openapi3.AllowExtensionsWithRef()); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if op.OperationID == "" || names[op.OperationID] || op.Summary == "" {
				t.Errorf("%s %s: want an operationId of its own and a summary, got %q", method, path, op.OperationID)
			}
			names[op.OperationID] = true
			switch op.Extensions["x-right"] {
			case "public", "self", "read", "infer", "read or infer", "operate", "admin", "record":
			default:
				t.Errorf("%s %s: x-right is %v", method, path, op.Extensions["x-right"])
			}
		}
	}
}
