package recordings

import (
	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/example"
)

// Samples returns the latest recorded requests to a model that can be read, at most so many.
func (r *Recordings) Samples(model string, most int) (list []*edgewise.Request) {
	for _, one := range r.Requests(model, 0, most) {
		data, err := r.Read(model, one.Number)
		if err != nil {
			continue // it was deleted meanwhile
		}
		if e, err := example.Decode(data); err == nil {
			list = append(list, e.Request(0))
		}
	}
	return list
}
