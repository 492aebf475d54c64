package httpapi

import (
	"github.com/edgewise-ai/edgewise"
)

// labelled returns the version that a label points to now. A client that names a label instead of a number goes along
// when it moves. Errors: NotFound, naming the label and the model, when no model or no label has that name.
func (s *Server) labelled(name, label string) (edgewise.ModelID, error) {
	id := edgewise.ModelID{Name: name}
	if s.deps.Library != nil && edgewise.CheckLabel(label) == nil {
		if record, err := s.deps.Library.Record(name); err == nil {
			id.Version = record.Label(label)
		}
	}
	if id.Version == 0 {
		return id, edgewise.Errorf("httpapi.labelled", edgewise.NotFound,
			"Request for unknown model: '%.200s' version '%.200s' is not found: want its number, or a label of this model", name,
			label)
	}
	return id, nil
}
