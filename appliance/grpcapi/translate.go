package grpcapi

import (
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/edgewise-ai/edgewise"
)

// translate makes a message of the body that the REST frontend would answer with: the protocol gives both forms the same
// names. Members that the message lacks, and enumerators left empty, are left out.
func translate[T proto.Message](body any, into T) (T, error) {
	const op = "grpcapi.translate"
	text, err := json.Marshal(body)
	if err != nil {
		return into, edgewise.Errorf(op, edgewise.Internal, "encoding the answer: %w", err)
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, into); err != nil {
		return into, edgewise.Errorf(op, edgewise.Internal, "the answer has no gRPC form: %w", err)
	}
	return into, nil
}
