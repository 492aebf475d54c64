package gpu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// rowsSelected is the batch with which devices are compared: each size is compiled first on a Vulkan device.
const rowsSelected = 8

// vulkanSettings are what a box is told of Vulkan devices: of stand-ins it is to use software.
func (s settings) vulkanSettings() []string {
	more := []string{"gpu.trial_time=2m", "engine.load_timeout=10m"}
	if s.vulkan != "" {
		more = append(more, "gpu.vulkan="+s.vulkan, "gpu.vulkan_drivers="+s.vulkanDriver, "gpu.software=true")
	}
	return more
}

// selected starts the program with models that leave the kind of device open, and notes what it has measured on each
// device and which one it has chosen; and, where there is a Vulkan device, with one that runs there, which clients ask.
func (r *report) selected(ctx context.Context, s settings) (err error) {
	dir, err := os.MkdirTemp("", "gputest-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	models, names, list := filepath.Join(dir, "models"), []string{}, []subject{}
	for _, m := range subjects(s.fake) {
		if m.name == "copies" || m.cudnn && !r.Machine.CuDNN() || s.fake && m.name != "mlp" {
			continue
		}
		m.most = rowsSelected
		name := fmt.Sprintf("open%d", len(list))
		if err := saveConfigured(filepath.Join(models, name), m, openConfig); err != nil {
			return err
		}
		list, names = append(list, m), append(names, name)
	}
	b, err := startBox(ctx, boxConfig{
		Program: s.server, Library: s.library, Driver: s.driver, Folders: s.folders, Models: models,
		Data: filepath.Join(dir, "data"), Ready: names, More: s.vulkanSettings(), Log: os.Stderr,
	})
	if err != nil {
		return err
	}
	defer b.kill()
	for i, m := range list {
		if err := r.chosen(b, names[i], m); err != nil {
			return err
		}
	}
	device, reason, err := b.vulkanDevice()
	if err != nil {
		return err
	}
	if err := r.stop(b, syscall.SIGTERM, "SIGTERM, with models that leave the kind open"); err != nil {
		return err
	}
	if device == "" {
		r.add(line{Name: "webgpu: not measured, " + reason})
		return nil
	}
	return r.onVulkan(ctx, s, filepath.Join(dir, "webgpu"), device, list[0])
}

// The configurations of models that leave the kind of device open, and that run on a Vulkan device.
const (
	openConfig   = "max_batch_size: %d\ndynamic_batching {}\nparameters { key: \"gpu_batch_buckets\" value { string_value: \"1,8\" } }\n"
	webgpuConfig = openConfig + "instance_group { kind: KIND_GPU }\n" +
		"optimization { execution_accelerators { gpu_execution_accelerator { name: \"webgpu\" } } }\n"
)

// saveConfigured writes a subject with a configuration, in which the batch size is filled in.
func saveConfigured(folder string, m subject, config string) error {
	if err := os.MkdirAll(filepath.Join(folder, "1"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "config.pbtxt"), fmt.Appendf(nil, config, m.most), 0o600); err != nil {
		return err
	}
	return m.make().Save(filepath.Join(folder, "1"))
}

// chosen notes what was measured of a model. A device that answers wrong or fails is a failure of the test, except where
// libraries stand in for NVIDIA's.
func (r *report) chosen(b *box, name string, m subject) error {
	var detail struct {
		Choice *admin.Choice `json:"choice"`
	}
	status, text, err := b.get("/api/v1/models/" + name + "/versions/1")
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("%s: %d %s (%w)", name, status, text, err)
	}
	if err := json.Unmarshal([]byte(text), &detail); err != nil {
		return err
	}
	if detail.Choice == nil {
		return fmt.Errorf("%s: nothing was measured: %s", name, text)
	}
	for _, c := range detail.Choice.Candidates {
		about := fmt.Sprintf("selection: %s, %s", m.name, c.Device)
		for _, f := range c.Figures {
			r.add(line{Name: fmt.Sprintf("%s, batch %d", about, f.Rows), Value: f.Milliseconds, Unit: "ms"})
		}
		if d := c.Difference; d != nil {
			r.add(line{Name: about + ": largest difference from the CPU", Value: d.Largest, Unit: "of " + d.Output})
		}
		l := line{Name: about + " is " + strings.ReplaceAll(c.State, "_", " ")}
		if bad := c.State == admin.CandidateWrong || c.State == admin.CandidateFailed; bad && !r.Fake {
			l.Failed = c.Reason
		}
		r.add(l)
	}
	return nil
}

// vulkanDevice returns the first Vulkan device that the box uses, or why it uses none.
func (b *box) vulkanDevice() (name, reason string, err error) {
	var list []edgewise.DeviceInfo
	status, text, err := b.get("/api/v1/devices")
	if err == nil && status == http.StatusOK {
		err = json.Unmarshal([]byte(text), &list)
	}
	if err != nil || status != http.StatusOK {
		return "", "", fmt.Errorf("the devices: %d %s (%w)", status, text, err)
	}
	reason = "the box finds no Vulkan device"
	for _, d := range list {
		if d.Kind == "vulkan" && d.Used {
			return d.Name, "", nil
		}
		if d.Kind == "vulkan" {
			reason = d.Name + ": " + d.Reason
		}
	}
	return "", reason, nil
}

// onVulkan serves a subject from a Vulkan device, measures it as clients do, and kills its process.
func (r *report) onVulkan(ctx context.Context, s settings, dir, device string, m subject) error {
	if err := saveConfigured(filepath.Join(dir, "models", "webgpu"), m, webgpuConfig); err != nil {
		return err
	}
	b, err := startBox(ctx, boxConfig{
		Program: s.server, Library: s.library, Driver: s.driver, Folders: s.folders, Models: filepath.Join(dir, "models"),
		Data: filepath.Join(dir, "data"), Ready: []string{"webgpu"}, More: s.vulkanSettings(), Log: os.Stderr,
	})
	if err != nil {
		return err
	}
	defer b.kill()
	for _, clients := range []int{1, 8} {
		q, err := newQuery("webgpu", m.input(rowsSelected, 2))
		if err != nil {
			return err
		}
		answers, took, err := b.load(clients, s.each, q)
		if err != nil {
			return err
		}
		r.add(line{
			Name:  fmt.Sprintf("webgpu: %s on %s, %d clients, rows of %d", m.name, device, clients, rowsSelected),
			Value: rowsSelected * float64(answers) / took.Seconds(), Unit: "rows/s",
		})
	}
	if err := r.comeBack(b, "webgpu", m); err != nil {
		return err
	}
	return r.stop(b, syscall.SIGTERM, "SIGTERM, with a model on "+device)
}
