//go:build cloud

// Package test reads model repositories in real object stores: versitygw, which checks signatures, fake-gcs-server and
// Azurite. "make cloud-test" builds what it needs.
package test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob"
	_ "gocloud.dev/blob/gcsblob"
	_ "gocloud.dev/blob/s3blob"
)

// root is the folder of the project.
const root = "../.."

func path(t *testing.T, name string) string {
	t.Helper()
	absolute, err := filepath.Abs(filepath.Join(root, name))
	if err == nil {
		_, err = os.Stat(absolute)
	}
	if err != nil {
		t.Fatalf("%v: run make cloud-test", err)
	}
	return absolute
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// freePort returns a port that nobody listens at.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// server is a program that serves at a port until the test ends.
type server struct {
	*exec.Cmd
	command func() *exec.Cmd
	address string
}

func startServer(t *testing.T, address string, command func() *exec.Cmd) *server {
	t.Helper()
	s := &server{command: command, address: address}
	s.start(t)
	t.Cleanup(s.stop)
	return s
}

func (s *server) start(t *testing.T) {
	t.Helper()
	s.Cmd = s.command()
	s.Cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	must(t, s.Cmd.Start())
	eventually(t, "an answer of "+s.Path, func() bool {
		c, err := net.Dial("tcp", s.address)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

func (s *server) stop() {
	if s.Process != nil {
		_ = syscall.Kill(-s.Process.Pid, syscall.SIGKILL)
		_ = s.Wait()
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("there is not %s", what)
		}
	}
}

// store is an object store with a bucket.
type store struct {
	t       *testing.T
	server  *server
	address string
	urls    []string // of the tree "models" in the bucket, in Triton's forms
	env     []string // credentials
	wrong   []string // credentials that it refuses; nil: it takes any
	users   string   // the file of the users that it knows beside its own; empty: it knows none
	bucket  *blob.Bucket
}

// stores are those of every kind.
var stores = map[string]func(*testing.T) *store{"s3": newS3, "gs": newGS, "as": newAS}

func openBucket(t *testing.T, s *store, url string) *store {
	t.Helper()
	var err error
	s.bucket, err = blob.OpenBucket(context.Background(), url)
	must(t, err)
	t.Cleanup(func() { _ = s.bucket.Close() })
	return s
}

func (s *store) put(name string, content []byte) {
	s.t.Helper()
	must(s.t, s.bucket.WriteAll(context.Background(), name, content, nil))
}

func newS3(t *testing.T) *store {
	dir, port := t.TempDir(), freePort(t)
	for _, name := range []string{"data/bucket", "meta", "users"} {
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
	}
	program := path(t, ".cache/cloud/versitygw")
	address := "127.0.0.1:" + port
	s := &store{t: t, address: address, server: startServer(t, address, func() *exec.Cmd {
		c := exec.Command(program, "--port", address, "--iam-dir", filepath.Join(dir, "users"), "--iam-cache-disable",
			"posix", "--sidecar", filepath.Join(dir, "meta"), filepath.Join(dir, "data"))
		c.Env = append(os.Environ(), "ROOT_ACCESS_KEY=thekey", "ROOT_SECRET_KEY=thesecret")
		return c
	})}
	s.users = filepath.Join(dir, "users", "users.json")
	s.env = []string{"AWS_ACCESS_KEY_ID=thekey", "AWS_SECRET_ACCESS_KEY=thesecret", "AWS_DEFAULT_REGION=us-east-1"}
	s.wrong = []string{"AWS_ACCESS_KEY_ID=thekey", "AWS_SECRET_ACCESS_KEY=wrongsecret"}
	s.urls = []string{"s3://" + address + "/bucket/models", "s3://http://" + address + "/bucket/models/"}
	for _, entry := range s.env {
		name, value, _ := strings.Cut(entry, "=")
		t.Setenv(name, value)
	}
	return openBucket(t, s, "s3://bucket?endpoint=http://"+address+"&use_path_style=true&region=us-east-1")
}

func newGS(t *testing.T) *store {
	port := freePort(t)
	program := path(t, ".cache/cloud/fake-gcs-server")
	address := "127.0.0.1:" + port
	s := &store{t: t, address: address, urls: []string{"gs://bucket/models"}, env: []string{"STORAGE_EMULATOR_HOST=" + address}}
	s.server = startServer(t, address, func() *exec.Cmd {
		return exec.Command(program, "-scheme", "http", "-host", "127.0.0.1", "-port", port, "-backend", "memory", "-public-host", address)
	})
	answer, err := http.Post("http://"+address+"/storage/v1/b", "application/json", strings.NewReader(`{"name":"bucket"}`))
	must(t, err)
	_ = answer.Body.Close()
	t.Setenv("STORAGE_EMULATOR_HOST", address)
	return openBucket(t, s, "gs://bucket?anonymous=true")
}

// account and key are Azurite's own.
const (
	account = "devstoreaccount1"
	key     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

func newAS(t *testing.T) *store {
	port, dir := freePort(t), t.TempDir()
	program := path(t, ".cache/azurite/node_modules/azurite/dist/src/blob/main.js")
	address := "127.0.0.1:" + port
	s := &store{t: t, address: address, urls: []string{"as://" + account + "/bucket/models"}}
	s.server = startServer(t, address, func() *exec.Cmd {
		return exec.Command("node", program, "--blobHost", "127.0.0.1", "--blobPort", port, "--location", dir,
			"--skipApiVersionCheck", "--silent")
	})
	s.env = []string{
		"AZURE_STORAGE_ACCOUNT=" + account, "AZURE_STORAGE_KEY=" + key, "AZURE_STORAGE_DOMAIN=" + address, "AZURE_STORAGE_PROTOCOL=http",
	}
	s.wrong = append([]string{}, s.env...)
	s.wrong[1] = "AZURE_STORAGE_KEY=d3Jvbmc="
	for _, entry := range s.env {
		name, value, _ := strings.Cut(entry, "=")
		t.Setenv(name, value)
	}
	makeContainer(t, address)
	return openBucket(t, s, "azblob://bucket?localemu=true&protocol=http&domain="+address)
}

func makeContainer(t *testing.T, address string) {
	t.Helper()
	shared, err := azblob.NewSharedKeyCredential(account, key)
	must(t, err)
	c, err := container.NewClientWithSharedKeyCredential("http://"+address+"/"+account+"/bucket", shared, nil)
	must(t, err)
	_, err = c.Create(context.Background(), nil)
	must(t, err)
}

// edgewise is a box.
type edgewise struct {
	*server
	t       *testing.T
	address string
	data    string
	log     string
}

// startBox starts a box with a model repository. data is its folder.
func startBox(t *testing.T, data string, env []string, arguments ...string) *edgewise {
	t.Helper()
	b := newBox(t, data, env, arguments...)
	b.server = startServer(t, b.server.address, b.server.command)
	return b
}

// newBox is a box that was not started.
func newBox(t *testing.T, data string, env []string, arguments ...string) *edgewise {
	t.Helper()
	port := freePort(t)
	b := &edgewise{t: t, address: "http://127.0.0.1:" + port, data: data, log: filepath.Join(t.TempDir(), "log")}
	program := path(t, "bin/edgewise")
	b.server = &server{address: "127.0.0.1:" + port, command: func() *exec.Cmd {
		given := []string{"serve", "--http-port", port, "--allow-grpc=false", "--allow-metrics=false"}
		c := exec.Command(program, append(given, arguments...)...)
		c.Env = append([]string{"EDGEWISE_DATA_DIR=" + data, "HOME=" + data, "PATH=" + os.Getenv("PATH")}, env...)
		out, err := os.Create(b.log)
		must(t, err)
		c.Stdout, c.Stderr = out, out
		return c
	}}
	return b
}

// wantSaid waits until the box has logged a text.
func (b *edgewise) wantSaid(text string) {
	b.t.Helper()
	eventually(b.t, fmt.Sprintf("%q in the log of the box", text), func() bool { return strings.Contains(b.said(), text) })
}

// said is what the box has logged.
func (b *edgewise) said() string {
	data, _ := os.ReadFile(b.log)
	return string(data)
}

func (b *edgewise) status(method, route string) int {
	r, err := http.NewRequest(method, b.address+route, nil)
	must(b.t, err)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	return answer.StatusCode
}

// wantModel waits until a version of a model is ready, or, with 404, is not known.
func (b *edgewise) wantModel(name string, status int) {
	b.t.Helper()
	end := time.Now().Add(2 * time.Minute)
	for b.status("GET", "/v2/models/"+name+"/ready") != status {
		if time.Now().After(end) {
			b.t.Fatalf("%s is not %d:\n%s", name, status, b.said())
		}
		time.Sleep(50 * time.Millisecond)
	}
}
