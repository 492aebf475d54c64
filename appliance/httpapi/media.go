package httpapi

import (
	"bytes"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// errForm answers a form, in which many programs wrap a file.
var errForm = edgewise.Errorf("httpapi.decode", edgewise.Invalid,
	"the body is a form (multipart/form-data): send the file itself as the body, with its own type, as \"curl -H "+
		"'Content-Type: image/jpeg' --data-binary @FILE\" does")

// isMedia tells whether a body without a JSON part is a file as it is, and no request of the protocol: by its type, or
// for application/octet-stream, which programs send with any body, because it does not begin as JSON of a request does.
func (f form) isMedia(body []byte) bool {
	for _, kind := range [...]string{"image/", "audio/", "video/"} {
		if hasPrefixFold(f.contentType, kind) {
			return true
		}
	}
	return !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte{'{'}) &&
		hasPrefixFold(f.contentType, "application/octet-stream")
}

func hasPrefixFold(text []byte, prefix string) bool {
	return len(text) >= len(prefix) && equalFold(text[:len(prefix)], prefix)
}

// decodeMedia makes a request out of a file that is the one input of a model.
func (s *Server) decodeMedia(id edgewise.ModelID, body []byte) (*kserve.InferRequest, error) {
	v, _, err := s.deps.Engine.Version(id)
	if err != nil {
		return nil, err
	}
	return s.decoder.Media(id, v.Model, body)
}
