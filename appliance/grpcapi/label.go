package grpcapi

import (
	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference/wire"
)

// model returns the version that a call names, by its number, by a label, or by neither.
func (s *Server) model(name, version string) (edgewise.ModelID, error) {
	id, label, err := wire.ParseModel(name, version)
	if err != nil {
		return id, err
	}
	return s.labelled(id, label)
}

// labelled returns the version of id's model that a label points to now, and id itself when label is empty. Errors:
// Invalid, as for a version that is neither a number nor a label.
func (s *Server) labelled(id edgewise.ModelID, label string) (edgewise.ModelID, error) {
	if label == "" {
		return id, nil
	}
	if s.deps.Labelled != nil {
		id.Version = s.deps.Labelled(id.Name, label)
	}
	if id.Version == 0 {
		return id, wire.NoVersion(label)
	}
	return id, nil
}
