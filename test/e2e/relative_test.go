package e2e

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/test/real"
)

// TestEveryPathMayBeRelative runs a box whose configuration names all files and folders from the working directory: with
// a model in a child process, a step, which a child compiles, TLS for gRPC, a log and a trace file, and a model
// repository. Doctor examines its data folder, and another such box restores its backup.
func TestEveryPathMayBeRelative(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, from := range map[string]string{
		"models/vad": filepath.Join(real.Models(t), "vad"), "models/speech": filepath.Join(real.Pipelines(t), "speech"),
		"lib": filepath.Dir(real.Library(t)), "more/face": filepath.Join(real.Models(t), "face"),
	} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(from, path); err != nil {
			t.Fatal(err)
		}
	}
	settings := []string{
		"--set", "repository.folders=models", "--set", "repository.control_mode=poll", "--set", "log.file=box.log",
		"--set", "onnx.library=lib/libonnxruntime.so.1", "--set", "trace.file=trace.json", "--set", "trace.levels=TIMESTAMPS",
		"--set", "trace.rate=1", "--import", "more",
	}
	b := serveIn(t, folder, "data", settings...)
	b.wantSpeech(t, sample(t, "speech.wav"), 0.05, segment{0.93, 2.72}, segment{3.91, 5.28})
	backup := b.backup(t)
	b.stop()
	b = serveIn(t, folder, "data", append(settings, "--set", "grpc.tls_certificate=data/tls/certificate.pem",
		"--set", "grpc.tls_key=data/tls/key.pem", "--set", "grpc.tls_client_authorities=data/tls/authority.pem")...)
	b.wantSpeech(t, sample(t, "speech.wav"), 0.05, segment{0.93, 2.72}, segment{3.91, 5.28})
	b.wantTLS(t, filepath.Join(folder, "data", "tls"))
	b.stop()
	for _, name := range []string{"box.log", "trace.json"} {
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	restored := serveIn(t, folder, "restored", "--set", "onnx.library=lib/libonnxruntime.so.1")
	restored.restore(t, backup, "speech")
	restored.wantSpeech(t, sample(t, "speech.wav"), 0.05, segment{0.93, 2.72}, segment{3.91, 5.28})
	restored.stop()
	for _, data := range []string{"data", "restored"} {
		doctor := exec.CommandContext(t.Context(), real.Program(t), "doctor", "--verify", "--set", "data_dir="+data)
		doctor.Dir = folder
		if said, err := doctor.CombinedOutput(); err != nil {
			t.Errorf("doctor: %v\n%s", err, said)
		}
	}
}

// serveIn starts a box in a working directory, with a data folder below it, and waits until it is ready.
func serveIn(t *testing.T, folder, dataDir string, arguments ...string) *box {
	t.Helper()
	b := newBox(t)
	b.cmd = exec.Command(real.Program(t), append(append([]string{"serve"}, ownArguments(dataDir)...), arguments...)...)
	b.cmd.Dir = folder
	b.start(nil)
	b.awaitReady()
	return b
}

// wantTLS connects to the gRPC server with the certificate in a folder, which the server takes from clients.
func (b *box) wantTLS(t *testing.T, folder string) {
	t.Helper()
	own, err := tls.LoadX509KeyPair(filepath.Join(folder, "certificate.pem"), filepath.Join(folder, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(filepath.Join(folder, "authority.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	c, err := tls.Dial("tcp", b.grpc, &tls.Config{
		RootCAs: roots, ServerName: "localhost", NextProtos: []string{"h2"}, Certificates: []tls.Certificate{own},
	})
	if err != nil {
		t.Fatalf("gRPC: %v\n%s", err, b.output())
	}
	_ = c.Close()
}

// backup returns a backup of the box.
func (b *box) backup(t *testing.T) []byte {
	t.Helper()
	status, file := b.send(http.MethodGet, "/api/v1/backup", nil)
	if status != http.StatusOK {
		t.Fatalf("the backup: %d %.300s", status, file)
	}
	return []byte(file)
}

// restore uploads a backup, has its job restore it, and waits until that is done and a model of it is ready.
func (b *box) restore(t *testing.T, backup []byte, model string) {
	t.Helper()
	location := b.tus(t, http.MethodPost, "/api/v1/uploads", nil, map[string]string{
		"Upload-Length":   strconv.Itoa(len(backup)),
		"Upload-Metadata": "filename " + base64.StdEncoding.EncodeToString([]byte("a.edgewise-backup")),
	})
	b.tus(t, http.MethodPatch, location, backup, map[string]string{
		"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream",
	})
	job := "/api/v1/jobs/" + filepath.Base(location)
	is := func(state string) func() bool {
		return func() bool {
			_, text := b.send(http.MethodGet, job, nil)
			var now admin.Job
			if err := json.Unmarshal([]byte(text), &now); err != nil || now.State == admin.JobFailed {
				t.Fatalf("%v: %s", err, text)
			}
			return now.State == state
		}
	}
	await(t, "the uploaded backup", is(admin.JobStaged))
	if status, text := b.send(http.MethodPost, job+"/activate", nil); status/100 != 2 {
		t.Fatalf("activate: %d %s", status, text)
	}
	await(t, "the restored backup", is(admin.JobDone))
	await(t, model, func() bool { return b.client.ModelReady(t.Context(), edgewise.ModelID{Name: model}) == nil })
}

// tus sends a request of an upload and returns the Location of the answer.
func (b *box) tus(t *testing.T, method, path string, body []byte, headers map[string]string) (location string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, b.url+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Tus-Resumable", "1.0.0")
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode/100 != 2 {
		text, _ := io.ReadAll(answer.Body)
		t.Fatalf("%s %s: %s %s", method, path, answer.Status, text)
	}
	return answer.Header.Get("Location")
}
