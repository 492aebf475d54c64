package registry

import (
	"strconv"

	"github.com/edgewise-ai/edgewise"
)

// FootprintsBucket has what the processes of versions took of the memory at the most, in bytes: one text for each stored
// version.
const FootprintsBucket = "footprints"

// NewFootprints makes the texts of what the processes of versions took.
func NewFootprints(documents edgewise.Documents) Notes { return Notes{documents, FootprintsBucket} }

// KeepFootprint notes what the process of a version takes at the most, for its next load, unless it is deleted.
func (g *Registry) KeepFootprint(id edgewise.ModelID, bytes int64) {
	notes := NewFootprints(g.config.Documents)
	err := notes.Set(id, strconv.FormatInt(bytes, 10))
	if r, unknown := g.Record(id.Name); err == nil && (unknown != nil || r.Version(id.Version) == nil) {
		err = notes.Forget(id) // it was deleted meanwhile
	}
	if err != nil {
		g.logger.Error("what a version takes of the memory was not written", "model", id.String(), "error", err)
	}
}

// CheckFootprint tells whether a document may stand in FootprintsBucket.
func CheckFootprint(value []byte) error {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err == nil && n <= 0 {
		err = strconv.ErrRange
	}
	return err
}
