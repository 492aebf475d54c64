package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/update"
	"github.com/edgewise-ai/edgewise/appliance/update/driver"
)

// software lets the box use Vulkan devices that compute on the processor, of which the extension mesa has one.
const software = "systemd.setenv=EDGEWISE_GPU_SOFTWARE=true"

// mesa is the driver extension that was made for the image.
func (t *trial) mesa() (string, error) {
	found, err := filepath.Glob(filepath.Join(t.drivers, "edgewise-driver-mesa_*_"+t.arch+".driver"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("there is no extension mesa in %s: make driver-mesa", t.drivers)
	}
	return found[0], nil
}

// remade makes an extension of mesa's file system with another manifest, signed by the key of a folder.
func (t *trial) remade(name, keys string, change func(*driver.Manifest)) (string, error) {
	from, err := t.mesa()
	if err != nil {
		return "", err
	}
	f, err := os.Open(from)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	original, err := driver.Read(f, info.Size())
	if err != nil {
		return "", err
	}
	change(&original.Manifest)
	text, err := json.Marshal(original.Manifest)
	if err != nil {
		return "", err
	}
	path := t.machine.file(name + ".driver")
	head, signature := path+".head", path+".signature"
	defer func() { _, _ = os.Remove(head), os.Remove(signature) }()
	signed := append([]byte(driver.Magic), append(text, '\n')...)
	if err := os.WriteFile(head, signed, 0o600); err != nil {
		return "", err
	}
	if err := execute("minisign", "-S", "-s", filepath.Join(keys, "edgewise.key"), "-m", head, "-x", signature); err != nil {
		return "", err
	}
	tail, err := os.ReadFile(signature)
	if err != nil {
		return "", err
	}
	header := make([]byte, driver.HeaderBytes)
	copy(header, append(signed, tail...))
	out, err := os.Create(path)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, io.MultiReader(bytes.NewReader(header), io.NewSectionReader(f, driver.HeaderBytes, info.Size())))
	return path, errors.Join(err, out.Close())
}

// driver: an extension is installed from a stick while the box runs.
func (t *trial) driver() error {
	file, err := t.mesa()
	if err != nil {
		return err
	}
	return t.plugDriver(file, "Driver: installed")
}

// plugDriver plugs a stick with an extension in, and wants the console to say something of it.
func (t *trial) plugDriver(file, want string) error {
	console, err := t.stickWith(map[string]string{"edgewise-driver.driver": file}, "Driver: installed", "Driver: refused")
	if err != nil {
		return err
	}
	said, _, _ := strings.Cut(console[strings.LastIndex(console, "Driver: "):], "\n")
	if !strings.Contains(said, want) {
		return fmt.Errorf("the box says %q: want %q", said, want)
	}
	t.say("           %s", strings.TrimSpace(said))
	return nil
}

// graphics: an extension that lies on the boot partition when the box is flashed is mounted at the first start, and a
// model runs on the device of its driver and answers as on the CPU.
func (t *trial) graphics() error {
	file, err := t.mesa()
	if err != nil {
		return err
	}
	at := disk(t.machine.disk)
	return inOrder(
		func() error { return at.say(software) },
		func() error { return at.place(file, filepath.Base(file)) },
		t.on, t.claim, func() error { return t.mounted("") }, t.onDevice,
	)
}

// mounted wants the driver mesa to be in use, of a version unless that is empty.
func (t *trial) mounted(version string) error {
	var d admin.Drivers
	err := await(t.patience, "the driver is listed", func() (bool, error) {
		err := t.box.want(http.MethodGet, "/api/v1/system/drivers", "", nil, &d)
		return err == nil && d.Possible && len(d.Installed) > 0, err
	})
	if err != nil {
		return err
	}
	for _, i := range d.Installed {
		t.say("           driver %s %s: in use %v %s", i.Name, i.Version, i.Mounted, i.Reason)
	}
	if !slices.ContainsFunc(d.Installed, func(i admin.Driver) bool { return i.Mounted && (version == "" || i.Version == version) }) {
		return fmt.Errorf("the driver %s is not in use: %+v", version, d.Installed)
	}
	return nil
}

// onDevice runs a network on the first Vulkan device and on the CPU, and compares the answers.
func (t *trial) onDevice() error {
	type device struct {
		Name, Description, Reason string
		Used                      bool
	}
	var devices []device
	if err := t.box.want(http.MethodGet, "/api/v1/devices", "", nil, &devices); err != nil {
		return err
	}
	t.say("           devices: %+v", devices)
	if !slices.ContainsFunc(devices, func(d device) bool { return d.Name == "vulkan:0" && d.Used }) {
		return fmt.Errorf("vulkan:0 is not used: %+v", devices)
	}
	answers := map[string][]float64{}
	for _, kind := range []string{"KIND_CPU", "KIND_GPU"} {
		name := "on_" + strings.ToLower(kind)
		archive, err := t.archive(name, kind)
		if err != nil {
			return err
		}
		path := "/api/v1/models/" + name
		err = inOrder(
			func() error { return t.box.want(http.MethodPost, path+"/versions", "application/x-tar", archive, nil) },
			func() error {
				return t.box.want(http.MethodPut, path+"/labels/live", "application/json", []byte(`{"version":1}`), nil)
			},
			func() error { return t.box.ready(name, t.patience) },
			func() (err error) { answers[kind], err = t.rows(name); return err },
		)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	t.say("           CPU: %v", answers["KIND_CPU"])
	t.say("           GPU: %v", answers["KIND_GPU"])
	return near(answers["KIND_CPU"], answers["KIND_GPU"])
}

// refusals: extensions that must not be installed are not, and the one that is stays in use.
func (t *trial) refusals() error {
	stranger := filepath.Join(t.dir, "stranger")
	if err := execute("configs/image/keys.sh", stranger); err != nil {
		return err
	}
	spoilt := func(name string, damage func(path string) error) (string, error) {
		path, err := t.remade(name, t.keys, func(m *driver.Manifest) { m.Version += "+1" })
		if err != nil {
			return "", err
		}
		return path, damage(path)
	}
	offers := []struct {
		name, want string
		make       func() (string, error)
	}{
		{"cut off", "cut off", func() (string, error) {
			return spoilt("short", func(p string) error { return os.Truncate(p, 5<<20) })
		}},
		{"flipped bytes", "was changed", func() (string, error) {
			return spoilt("flipped", func(p string) error {
				f, err := os.OpenFile(p, os.O_WRONLY, 0)
				if err != nil {
					return err
				}
				_, err = f.WriteAt([]byte("these bytes are not what was signed"), 6<<20)
				return errors.Join(err, f.Close())
			})
		}},
		{"signed by a stranger", "does not know", func() (string, error) {
			return t.remade("foreign", stranger, func(*driver.Manifest) {})
		}},
		{"for another system", "debian-12", func() (string, error) {
			return t.remade("other", t.keys, func(m *driver.Manifest) { m.Fits.Level = "debian-12" })
		}},
		{"for a later version", "and later", func() (string, error) {
			return t.remade("later", t.keys, func(m *driver.Manifest) { m.Fits.From = "99" })
		}},
	}
	for _, o := range offers {
		file, err := o.make()
		if err == nil {
			err = t.plugDriver(file, o.want)
		}
		if err != nil {
			return fmt.Errorf("an extension %s: %w", o.name, err)
		}
		_ = os.Remove(file)
	}
	return t.mounted("")
}

const pairedVersion = "99.0"

// pair: an update and an extension for it alone are installed from one stick; the next start has both, and the one
// after going back has the extension before.
func (t *trial) pair() error {
	paired, err := t.remade("paired", t.keys, func(m *driver.Manifest) { m.Version, m.Fits.From = pairedVersion, t.newer })
	if err != nil {
		return err
	}
	files := map[string]string{"edgewise.raucb": filepath.Join(t.image, "edgewise-"+t.newer+".raucb"), "paired.driver": paired}
	if _, err := t.stickWith(files, "Driver: installed", "Update: refused", "Driver: refused"); err != nil {
		return err
	}
	t.machine.cut()
	if err := inOrder(t.up, func() error { return t.mounted(pairedVersion) }, func() error { return t.marked("B") }); err != nil {
		return err
	}
	if err := t.box.want(http.MethodPost, "/api/v1/system/rollback", "", nil, nil); err != nil {
		return err
	}
	if err := t.machine.off(t.patience); err != nil {
		return err
	}
	first, err := t.mesa()
	if err != nil {
		return err
	}
	version := strings.Split(filepath.Base(first), "_")[1]
	return inOrder(t.up, func() error { return t.mounted(version) }, t.onDevice)
}

// wholeDrivers finds every extension that the folder of the helper names as it was signed.
func wholeDrivers(folder, keys string) error {
	s, err := (&driver.Folder{Path: folder}).State()
	if err != nil {
		return err
	}
	public, err := update.Keys(keys)
	if err != nil {
		return err
	}
	for _, e := range s.Entries {
		f, err := os.Open(filepath.Join(folder, e.File))
		if err != nil {
			return fmt.Errorf("the driver %s, which is installed: %w", e.File, err)
		}
		defer func() { _ = f.Close() }()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		file, err := driver.Read(f, info.Size())
		if err == nil {
			err = file.Verify(public)
		}
		if err != nil {
			return fmt.Errorf("the driver %s, which is installed: %w", e.File, err)
		}
	}
	return nil
}

// archive is an upload of a small network that runs on one kind of device.
func (t *trial) archive(name, kind string) ([]byte, error) {
	config := fmt.Sprintf("name: %q\nplatform: \"onnxruntime_onnx\"\nmax_batch_size: 1\ninstance_group [ { kind: %s } ]\n", name, kind)
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range []struct {
		name string
		text []byte
	}{{"config.pbtxt", []byte(config)}, {"model.onnx", network(7)}} {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.text))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// rows asks a network for one row and returns its output.
func (t *trial) rows(name string) ([]float64, error) {
	in := make([]float64, 64)
	for i := range in {
		in[i] = float64(i%7) / 7
	}
	body, err := json.Marshal(map[string]any{"inputs": []any{
		map[string]any{"name": "input", "datatype": "FP32", "shape": []int{1, 64}, "data": in},
	}})
	if err != nil {
		return nil, err
	}
	var answer struct {
		Outputs []struct{ Data []float64 }
	}
	if err := t.box.want(http.MethodPost, "/v2/models/"+name+"/infer", "application/json", body, &answer); err != nil {
		return nil, err
	}
	if len(answer.Outputs) != 1 || len(answer.Outputs[0].Data) != 10 {
		return nil, fmt.Errorf("%s answers %+v", name, answer)
	}
	return answer.Outputs[0].Data, nil
}

// near wants two answers to be the same but for the last digits.
func near(a, b []float64) error {
	for i := range a {
		if math.Abs(a[i]-b[i]) > 1e-4 {
			return fmt.Errorf("element %d is %v on the CPU and %v on the device", i, a[i], b[i])
		}
	}
	return nil
}
