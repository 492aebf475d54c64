package inference

import (
	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// SharedMemory holds the regions that clients on the same machine hand over. All methods are safe for concurrent use.
type SharedMemory interface {
	// Allowed returns nil when clients may register regions. Errors: Unsupported.
	Allowed() error
	// Register gives a part of a shared memory object a name. Errors: Unsupported (not allowed on this box), Exists,
	// Invalid, Exhausted.
	Register(region edgewise.Region) error
	// Unregister forgets a region, or all for the empty name. Errors: Unsupported.
	Unregister(name string) error
	// Status lists a region, or all for the empty name. Errors: NotFound.
	Status(name string) ([]edgewise.Region, error)
	// Open returns size bytes of a region from offset. Errors: NotFound, Invalid.
	Open(name string, offset, size int64) (edgewise.Window, error)
}

// noRegionName refuses to register what has no name.
func noRegionName(kind string) error {
	return edgewise.Errorf("inference.noRegionName", edgewise.Invalid, "'region name' is necessary to register %s shared "+
		"memory region", kind)
}

// regions lists what is registered: GET /v2/systemsharedmemory[/region/{name}]/status.
func (h *Handlers) regions(r *httpapi.Request) error {
	name := r.Param("region")
	list, err := h.Shared.Status(name)
	if err != nil {
		return err
	}
	out := make([]kserve.Region, len(list))
	for i, r := range list {
		out[i] = kserve.Region{Name: r.Name, Key: r.Key, Offset: r.Offset, ByteSize: r.Size}
	}
	return r.WriteJSON(out)
}

// registerRegion names a part of a shared memory object: POST /v2/systemsharedmemory/region/{name}/register.
func (h *Handlers) registerRegion(r *httpapi.Request) error {
	name := r.Param("region")
	if err := h.Shared.Allowed(); err != nil {
		return err
	}
	if name == "" {
		return noRegionName("system")
	}
	var ask kserve.RegisterRequest
	if err := r.ReadJSON(&ask); err != nil {
		return err
	}
	switch {
	case ask.Key == nil:
		return edgewise.Errorf("inference.registerRegion", edgewise.Invalid, "Shared memory register request has no 'key'")
	case ask.ByteSize == nil:
		return edgewise.Errorf("inference.registerRegion", edgewise.Invalid,
			"Shared memory register request has no 'byte_size'")
	}
	err := h.Shared.Register(edgewise.Region{Name: name, Key: *ask.Key, Offset: ask.Offset, Size: *ask.ByteSize})
	if err == nil {
		return emptyJSON(r)
	}
	if edgewise.KindOf(err) == edgewise.Exists { // 400 in this protocol
		return edgewise.Errorf("inference.registerRegion", edgewise.Invalid, "%w", err)
	}
	return err
}

// unregisterRegion forgets one region or all: POST /v2/systemsharedmemory[/region/{name}]/unregister.
func (h *Handlers) unregisterRegion(r *httpapi.Request) error {
	name := r.Param("region")
	if err := h.Shared.Unregister(name); err != nil {
		return err
	}
	return emptyJSON(r)
}

// deviceRegions lists the regions in a GPU's memory, of which there are none.
func (h *Handlers) deviceRegions(r *httpapi.Request) error {
	name := r.Param("region")
	if name != "" {
		return edgewise.Errorf("inference.deviceRegions", edgewise.NotFound, "Unable to find cuda shared memory region: "+
			"'%.200s'", name)
	}
	return r.WriteJSON([]kserve.Region{})
}

// registerDeviceRegion refuses as a server without a GPU does: POST /v2/cudasharedmemory/region/{name}/register.
func (h *Handlers) registerDeviceRegion(r *httpapi.Request) error {
	name := r.Param("region")
	if err := h.Shared.Allowed(); err != nil {
		return err
	}
	if name == "" {
		return noRegionName("cuda")
	}
	return edgewise.Errorf("inference.registerDeviceRegion", edgewise.Invalid,
		"failed to register CUDA shared memory region: '%.200s', GPUs not supported", name)
}

// unregisterDeviceRegion forgets what was never registered: POST /v2/cudasharedmemory[/region/{name}]/unregister.
func (h *Handlers) unregisterDeviceRegion(r *httpapi.Request) error {
	if err := h.Shared.Allowed(); err != nil {
		return err
	}
	return emptyJSON(r)
}

// sharing is what one request has open of shared memory.
type sharing struct {
	inputs  []*blocks.Block
	windows []edgewise.Window // one for each of the request's answers; nil where the output is not shared
}

// share reads the inputs that are in shared memory into memory of the box, and opens where outputs are to go. Inputs
// are copied because their owner can change them at any time, also between a check and the use of what was checked.
func (h *Handlers) share(req *kserve.InferRequest) (sh sharing, err error) {
	for i, place := range req.Shared {
		if !place.Set() {
			continue
		}
		if err := h.shareInput(&sh, &req.Inputs[i], place); err != nil {
			sh.close()
			return sharing{}, err
		}
	}
	for i, answer := range req.Answers {
		if !answer.Shared.Set() {
			continue
		}
		w, err := h.Shared.Open(answer.Shared.Region, answer.Shared.Offset, answer.Shared.Size)
		if err != nil {
			sh.close()
			return sharing{}, err
		}
		if sh.windows == nil {
			sh.windows = make([]edgewise.Window, len(req.Answers))
		}
		sh.windows[i] = w
	}
	return sh, nil
}

func (h *Handlers) shareInput(sh *sharing, in *edgewise.Tensor, place kserve.Place) error {
	w, err := h.Shared.Open(place.Region, place.Offset, place.Size)
	if err != nil {
		return err
	}
	defer w.Close()
	b := h.Memory().Take(w.Size())
	if b == nil {
		return h.NoMemory()
	}
	sh.inputs = append(sh.inputs, b)
	in.Data = b.Bytes[:w.Size():w.Size()]
	return w.Read(in.Data)
}

// deliver writes the outputs that go into shared memory.
func (sh sharing) deliver(req *kserve.InferRequest, resp *edgewise.Response) error {
	for i, w := range sh.windows {
		if w == nil {
			continue
		}
		for j := range resp.Outputs {
			out := &resp.Outputs[j]
			if out.Name != req.Answers[i].Name {
				continue
			}
			if size := int64(len(out.Data)); size > w.Size() {
				return edgewise.Errorf("inference.deliver", edgewise.Invalid,
					"shared memory size specified with the request for output '%s' (%d bytes) should be at least %d bytes to hold "+
						"the results", out.Name, w.Size(), size)
			}
			if err := w.Write(out.Data); err != nil {
				return err
			}
		}
	}
	return nil
}

func (sh sharing) close() {
	for _, b := range sh.inputs {
		b.Free()
	}
	for _, w := range sh.windows {
		if w != nil {
			w.Close()
		}
	}
}
