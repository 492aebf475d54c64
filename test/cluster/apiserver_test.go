//go:build cluster

package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

var (
	tools  = flag.String("cluster.tools", "", "folder with what tools.sh has built")
	kserve = flag.String("cluster.kserve", "", "folder with KServe's resource definitions; empty: its objects are not tested")
)

const (
	chart    = "../../configs/kubernetes/edgewise"
	token    = "admin"
	patience = 5 * time.Minute

	lastWords = 4 << 10 // bytes of a program's log that a failed test shows
)

// server is an API server with an etcd of its own.
type server struct {
	address string
	key     string // file of the key that signs the tokens of service accounts
}

// startServer starts both, and waits until the server is ready.
func startServer(t *testing.T) server {
	t.Helper()
	dir := t.TempDir()
	key := filepath.Join(dir, "accounts.key")
	writeKey(t, key)
	tokens := filepath.Join(dir, "tokens.csv")
	write(t, tokens, token+",admin,admin,system:masters\n")
	store, peers, port := freePort(t), freePort(t), freePort(t)
	stores, peer := fmt.Sprint("http://127.0.0.1:", store), fmt.Sprint("http://127.0.0.1:", peers)
	start(t, "etcd", "--data-dir="+filepath.Join(dir, "etcd"), "--listen-client-urls="+stores, "--advertise-client-urls="+stores,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer)
	start(t, "kube-apiserver", "--etcd-servers="+stores, "--service-account-issuer=https://edgewise.test",
		"--service-account-signing-key-file="+key, "--service-account-key-file="+key, "--service-cluster-ip-range=10.99.0.0/24",
		"--token-auth-file="+tokens, "--authorization-mode=Node,RBAC", "--cert-dir="+filepath.Join(dir, "certificates"),
		"--endpoint-reconciler-type=none", "--bind-address=127.0.0.1", fmt.Sprint("--secure-port=", port))
	s := server{address: fmt.Sprint("https://127.0.0.1:", port), key: key}
	s.await(t)
	return s
}

// await waits until the server says that it is ready.
func (s server) await(t *testing.T) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.address+"/readyz", nil)
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := client.Do(req)
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Since(begun) > patience {
			t.Fatalf("the API server is not ready: %v", err)
		}
	}
}

// helm runs helm against the server.
func (s server) helm(t *testing.T, arguments ...string) (output string, err error) {
	t.Helper()
	home := t.TempDir()
	command := exec.CommandContext(t.Context(), tool("helm"), append(arguments, "--kube-apiserver", s.address, "--kube-token", token,
		"--kube-insecure-skip-tls-verify")...)
	command.Env = append(os.Environ(), "HOME="+home, "KUBECONFIG=/dev/null")
	said, err := command.CombinedOutput()
	return string(said), err
}

// start starts a program of tools.sh and ends it with the test.
func start(t *testing.T, name string, arguments ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var log bytes.Buffer
	command := exec.CommandContext(ctx, tool(name), arguments...)
	command.Stdout, command.Stderr = &log, &log
	command.WaitDelay = time.Second // what it has started may hold its output
	if err := command.Start(); err != nil {
		t.Fatalf("%v: -cluster.tools is a folder that tools.sh has filled", err)
	}
	t.Cleanup(func() {
		cancel()
		_ = command.Wait()
		if !t.Failed() {
			return
		}
		said := log.Bytes()
		t.Logf("%s: %v; it said last:\n%s", name, command.ProcessState, said[max(0, len(said)-lastWords):])
	})
}

func tool(name string) string { return filepath.Join(*tools, name) }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// writeKey writes the key that signs the tokens of service accounts.
func writeKey(t *testing.T, path string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})))
}

func freePort(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}
