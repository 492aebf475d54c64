package grpcapi

import (
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/edgewise-ai/edgewise"
)

// translate converts the body of a REST response to a message: the protocol gives members the same names in both.
// Members that the message lacks are left out.
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
