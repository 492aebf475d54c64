package fakesystem

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/edgewise-ai/edgewise/appliance/update/driver"
)

// Level is what the systems of Driver's extensions have as their level.
const Level = "debian-13"

// Driver returns a signed driver extension for amd64 and any version of a slot, with content as its file system. change,
// which may be nil, changes its manifest before it is signed.
func Driver(sign func([]byte) string, version string, content []byte, change func(*driver.Manifest)) []byte {
	digest := sha256.Sum256(content)
	m := driver.Manifest{
		Name: "mesa", Version: version, Kind: driver.Vulkan, Architecture: "amd64", Fits: driver.Fits{Level: Level},
		Devices: []driver.Device{
			{Vendor: "1002", Modules: []string{"amdgpu"}, Manifests: []string{"share/vulkan/icd.d/radeon_icd.json"}},
			{Vendor: "8086", Modules: []string{"i915", "xe"}, Manifests: []string{"share/vulkan/icd.d/intel_icd.json"}},
			{Manifests: []string{"share/vulkan/icd.d/lvp_icd.json"}},
		},
		Loader: "lib/libvulkan.so.1", Size: int64(len(content)), SHA256: hex.EncodeToString(digest[:]),
	}
	if change != nil {
		change(&m)
	}
	text, err := json.Marshal(m)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	signed := append([]byte(driver.Magic), append(text, '\n')...)
	head := append(bytes.Clone(signed), sign(signed)...)
	return append(append(head, make([]byte, driver.HeaderBytes-len(head))...), content...)
}
