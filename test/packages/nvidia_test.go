//go:build drivers

package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/appliance/update"
	"github.com/edgewise-ai/edgewise/appliance/update/driver"
)

// standIn makes a Debian package of files; those whose names end in .so and a number are libraries that do nothing.
func standIn(t *testing.T, folder, name, version string, files ...string) {
	t.Helper()
	tree := t.TempDir()
	for _, file := range files {
		path := filepath.Join(tree, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(file, ".so.") {
			run(t, "gcc", "-shared", "-o", path, "-Wl,-soname,"+filepath.Base(file), "-x", "c", "/dev/null")
		} else if err := os.WriteFile(path, []byte("stands in for "+file), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	control := "Package: " + name + "\nVersion: " + version +
		"\nArchitecture: amd64\nMaintainer: nobody <nobody@example.org>\nDescription: stand-in\n"
	if err := os.MkdirAll(filepath.Join(tree, "DEBIAN"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tree, "DEBIAN/control"), []byte(control), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, "dpkg-deb", "--root-owner-group", "-Zgzip", "--build", tree, filepath.Join(folder, name+".deb"))
}

// TestNVIDIAsExtensionIsMadeOfItsPackages runs the script over packages that stand in for NVIDIA's, which are not
// obtainable here.
func TestNVIDIAsExtensionIsMadeOfItsPackages(t *testing.T) {
	folder, out := t.TempDir(), t.TempDir()
	kernel := kernelOf(t)
	const lib = "usr/lib/x86_64-linux-gnu/"
	standIn(t, folder, "libcuda1", "580.95.05-1", lib+"libcuda.so.1", lib+"libnvidia-ml.so.1", lib+"libnvidia-ptxjitcompiler.so.1")
	standIn(t, folder, "cuda-libraries", "13.0.0-1", lib+"libcudart.so.13", lib+"libcublas.so.13",
		lib+"libcublasLt.so.13", lib+"libcurand.so.10")
	standIn(t, folder, "libcudnn9", "9.14-1", lib+"libcudnn.so.9", lib+"libcudnn_ops.so.9")
	standIn(t, folder, "nvidia-modprobe", "580.95.05-1", "usr/bin/nvidia-modprobe")
	standIn(t, folder, "firmware-nvidia-gsp", "580.95.05-1", "usr/lib/firmware/nvidia/580.95.05/gsp_ga10x.bin")
	made := func(kernel string) (string, error) {
		cmd := exec.Command("../../configs/drivers/nvidia.sh", folder, kernel, filepath.Dir(*base), *keys, out)
		cmd.Env = append(cmd.Environ(), "SOURCE_DATE_EPOCH=1767225600", "LEVEL=1")
		text, err := cmd.CombinedOutput()
		return string(text), err
	}
	for want, kernel := range map[string]string{"has another kernel": "6.1.0", "no package has the module nvidia": kernel} {
		if text, err := made(kernel); err == nil || !strings.Contains(text, want) {
			t.Errorf("got %v %s: want %q", err, text, want)
		}
	}
	modules := "usr/lib/modules/" + kernel + "/updates/dkms/"
	standIn(t, folder, "nvidia-modules", "580.95.05-1", modules+"nvidia.ko", modules+"nvidia-uvm.ko")
	if text, err := made(kernel); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	f, err := os.Open(filepath.Join(out, "edgewise-driver-nvidia_580.95.05-1_amd64.driver"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	file, err := driver.Read(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	public, err := update.Keys(*keys)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Verify(public); err != nil {
		t.Error(err)
	}
	if m := file.Manifest; m.Kind != driver.CUDA || m.Fits.Kernel != kernel || m.Version != "580.95.05-1" {
		t.Errorf("the manifest is %+v", m)
	}
	list := run(t, "unsquashfs", "-o", "65536", "-l", f.Name())
	for _, name := range []string{
		"lib/libcuda.so.1", "lib/libcudnn_ops.so.9", "modules/nvidia-uvm.ko", "bin/nvidia-modprobe",
		"firmware/nvidia/580.95.05/gsp_ga10x.bin",
	} {
		if !strings.Contains(list, "/"+name+"\n") {
			t.Errorf("the extension has no %s", name)
		}
	}
}

// kernelOf is the release of the image's kernel.
func kernelOf(t *testing.T) string {
	t.Helper()
	for line := range strings.Lines(run(t, "tar", "-tf", *base)) {
		if _, rest, ok := strings.Cut(line, "/lib/modules/"); ok && rest != "\n" {
			release, _, _ := strings.Cut(rest, "/")
			return release
		}
	}
	t.Fatal("the image has no kernel")
	return ""
}
