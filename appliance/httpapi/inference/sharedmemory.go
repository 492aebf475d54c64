package inference

import (
	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

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
