//go:build drivers

package packages

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

var (
	base    = flag.String("base", "", "base.tar of the image")
	program = flag.String("program", "", "the program")
	runtime = flag.String("runtime", "", "folder of libonnxruntime.so.1")
	drivers = flag.String("drivers", "", "folder of driver extensions")
	keys    = flag.String("keys", "", "folder of the public keys that they are signed with")
)

// slot is the image's part of Debian, unpacked, with the program and the keys of a release.
func slot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	run(t, "tar", "-C", root, "--numeric-owner", "--exclude=./dev/*", "-xf", *base)
	for from, to := range map[string]string{
		*program: "usr/lib/edgewise/edgewise", filepath.Join(*runtime, "libonnxruntime.so.1"): "usr/lib/edgewise/lib/libonnxruntime.so.1",
		filepath.Join(*keys, "edgewise.pub"): "usr/share/edgewise/keys/edgewise.pub",
	} {
		run(t, "install", "-D", from, filepath.Join(root, to))
	}
	release := filepath.Join(root, "etc/os-release")
	run(t, "rm", "-f", release)
	if err := os.WriteFile(release, []byte("ID=edgewise\nVERSION_ID=1.0\nSYSEXT_LEVEL=debian-13\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

func run(t *testing.T, command ...string) string {
	t.Helper()
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v: %s", command, err, out)
	}
	return string(out)
}

// inside returns a command in a root of its own, with mounts of its own, in which /sys cannot be changed.
func inside(root, script string) *exec.Cmd {
	return exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec",
		`cd "$1"; mount --bind /dev dev; mount -t proc proc proc; mount -t sysfs -o ro sys sys; mount -t tmpfs tmpfs run
		exec chroot . sh -ec "$2"`,
		"sh", root, script)
}

var address = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// TestTheExtensionMesaServes mounts the extension as a start of a box does, in the image's part of Debian, and has a
// model answer on the device of its driver as on the CPU. Needs root.
func TestTheExtensionMesaServes(t *testing.T) {
	root := slot(t)
	files, err := filepath.Glob(filepath.Join(*drivers, "edgewise-driver-mesa_*_amd64.driver"))
	if err != nil || len(files) != 1 {
		t.Fatalf("extensions in %s: %q, %v", *drivers, files, err)
	}
	run(t, "install", "-D", files[0], filepath.Join(root, "efi/mesa.driver"))
	cmd := inside(root, `/usr/lib/edgewise/edgewise driver mount
cat /run/edgewise-drivers/mounted.json
set -a; . /run/edgewise-drivers/environment; set +a
export EDGEWISE_GPU_SOFTWARE=true
/usr/lib/edgewise/edgewise doctor || true
exec /usr/lib/edgewise/edgewise serve --auth open --set data_dir=/var/lib/edgewise --set http.address=127.0.0.1:0 --set grpc.address= \
	--set metrics.address= --set store.reserve_bytes=0 --set tls.mode=off`)
	output, to := io.Pipe()
	cmd.Stdout, cmd.Stderr = to, to
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	said, found := new(strings.Builder), make(chan string, 1)
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := output.Read(buffer)
			said.Write(buffer[:n])
			if a := address.FindString(said.String()); a != "" {
				select {
				case found <- a:
				default:
				}
			}
			if err != nil {
				return
			}
		}
	}()
	var box string
	select {
	case box = <-found:
	case <-time.After(10 * time.Minute):
		t.Fatal("the box does not answer")
	}
	t.Log(said.String())
	if !strings.Contains(said.String(), `"mounted":true`) || !regexp.MustCompile(`vulkan:0 .*llvmpipe.*; used`).MatchString(said.String()) {
		t.Fatal("the device of the extension's driver is not used")
	}
	cpu, gpu := answer(t, box, "KIND_CPU"), answer(t, box, "KIND_GPU")
	t.Logf("CPU %v\nVulkan %v", cpu, gpu)
	for i := range cpu {
		if math.Abs(cpu[i]-gpu[i]) > 1e-4 {
			t.Errorf("element %d: %v on the CPU, %v on the device", i, cpu[i], gpu[i])
		}
	}
}

// answer uploads a network that runs on one kind of device, and returns its answer.
func answer(t *testing.T, box, kind string) []float64 {
	t.Helper()
	name := "on_" + strings.ToLower(kind)
	config := fmt.Sprintf("name: %q\nplatform: \"onnxruntime_onnx\"\nmax_batch_size: 1\ninstance_group [ { kind: %s } ]\n", name, kind)
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for file, text := range map[string][]byte{"config.pbtxt": []byte(config), "model.onnx": onnxgen.MLP(7).Bytes()} {
		if err := w.WriteHeader(&tar.Header{Name: file, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	ask := func(method, path, kind string, body []byte) []byte {
		t.Helper()
		req, err := http.NewRequest(method, box+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", kind)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode/100 != 2 {
			t.Fatalf("%s %s: %d %s %v", method, path, res.StatusCode, text, err)
		}
		return text
	}
	ask("POST", "/api/v1/models/"+name+"/versions?promote=true", "application/x-tar", packed.Bytes())
	row, err := json.Marshal(make([]float64, 64))
	if err != nil {
		t.Fatal(err)
	}
	row = bytes.ReplaceAll(row, []byte("0"), []byte("0.5"))
	body := fmt.Sprintf(`{"inputs":[{"name":"input","datatype":"FP32","shape":[1,64],"data":%s}]}`, row)
	var got struct{ Outputs []struct{ Data []float64 } }
	text := ask("POST", "/v2/models/"+name+"/infer", "application/json", []byte(body))
	if err := json.Unmarshal(text, &got); err != nil || len(got.Outputs) != 1 {
		t.Fatalf("%s: %v", name, err)
	}
	return got.Outputs[0].Data
}
