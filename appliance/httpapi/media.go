package httpapi

import (
	"bytes"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// isMedia tells whether a body of that type is a file as it is, and no request of the protocol.
func isMedia(contentType []byte) bool {
	for _, kind := range [...]string{"image/", "audio/", "video/"} {
		if len(contentType) >= len(kind) && bytes.EqualFold(contentType[:len(kind)], []byte(kind)) {
			return true
		}
	}
	return false
}

// decodeMedia makes a request out of a file that is the one input of a model.
func (s *Server) decodeMedia(id edgewise.ModelID, body []byte) (*kserve.InferRequest, error) {
	v, _, err := s.deps.Engine.Version(id)
	if err != nil {
		return nil, err
	}
	return s.decoder.Media(id, v.Model, body)
}
