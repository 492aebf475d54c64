package grpcapi

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
)

func TestShutdownAnswersWhatIsInProgress(t *testing.T) {
	ts := start(t, nil)
	begun, release := make(chan struct{}, 2), make(chan struct{})
	ts.engine.onInfer(func(context.Context, *edgewise.Request) error {
		begun <- struct{}{}
		<-release
		return nil
	})
	answered := make(chan error, 1)
	go func() {
		_, err := ts.client.ModelInfer(t.Context(), raw(1))
		answered <- err
	}()
	busy, idle := ts.openStream(t, t.Context()), ts.openStream(t, t.Context())
	send(t, busy, "a", 1, nil)
	<-begun
	<-begun
	stopped := make(chan error, 1)
	go func() { stopped <- ts.Shutdown(t.Context()) }()
	_, err := idle.Recv()
	wantStatus(t, err, codes.Unavailable, "GRPC server is shutting down and has stopped accepting new requests.")
	close(release)
	if err := <-answered; err != nil {
		t.Errorf("the call in progress: %v", err)
	}
	if got, err := busy.Recv(); err != nil || got.InferResponse.GetId() != "a" {
		t.Errorf("the stream in progress: %v, %v", got, err)
	}
	_, err = busy.Recv()
	wantStatus(t, err, codes.Unavailable, "GRPC server is shutting down")
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if err := <-ts.served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	again, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := ts.Serve(again); edgewise.KindOf(err) != edgewise.Conflict {
		t.Errorf("Serve after Shutdown: %v", err)
	}
}

func TestShutdownCutsOffWhatDoesNotEnd(t *testing.T) {
	ts := start(t, nil)
	begun := make(chan struct{})
	ts.engine.onInfer(func(ctx context.Context, _ *edgewise.Request) error {
		close(begun)
		<-ctx.Done()
		return nil
	})
	go func() { _, _ = ts.client.ModelInfer(t.Context(), raw(1)) }()
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := ts.Shutdown(ctx); edgewise.KindOf(err) != edgewise.Deadline {
		t.Errorf("got %v", err)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	ts := start(t, func(c *Config) { c.MaxConnections = 1 })
	if _, err := ts.client.ServerLive(t.Context(), &inference.ServerLiveRequest{}); err != nil {
		t.Fatal(err)
	}
	second := inference.NewGRPCInferenceServiceClient(ts.dial(t))
	_, err := second.ServerLive(t.Context(), &inference.ServerLiveRequest{})
	wantStatus(t, err, codes.Unavailable, "")
	if n := ts.Statistics().Connections; n != 1 {
		t.Errorf("%d connections", n)
	}
	_ = ts.conn.Close()
	eventually(t, "room for a connection", func() bool {
		_, err := second.ServerLive(t.Context(), &inference.ServerLiveRequest{})
		return err == nil
	})
}

// TestCallsOverTheLimitWait makes more calls at once than a connection may have: the client keeps the others back.
func TestCallsOverTheLimitWait(t *testing.T) {
	const most, calls = 2, 100
	ts := start(t, func(c *Config) { c.MaxStreams = most })
	var inProgress, over atomic.Int64
	ts.engine.onInfer(func(context.Context, *edgewise.Request) error {
		if inProgress.Add(1) > most {
			over.Add(1)
		}
		runtime.Gosched()
		inProgress.Add(-1)
		return nil
	})
	var group sync.WaitGroup
	for range calls {
		group.Go(func() {
			if _, err := ts.client.ModelInfer(t.Context(), raw(1)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := over.Load(); n > 0 {
		t.Errorf("%d calls ran beside %d others", n, most)
	}
}

func TestCallsAreRefusedWhileMemoryIsFull(t *testing.T) {
	ts := start(t, nil)
	if !ts.memory.Reserve(DefaultMaxInflightBytes) {
		t.Fatal("there is no memory")
	}
	_, err := ts.client.ModelInfer(t.Context(), raw(1))
	wantStatus(t, err, codes.Unavailable, "grpc.max_inflight_bytes")
	if _, err := ts.client.ServerLive(t.Context(), &inference.ServerLiveRequest{}); err != nil {
		t.Error(err)
	}
	ts.memory.Return(DefaultMaxInflightBytes)
	calls := ts.Statistics().Calls
	if len(calls) != 2 || calls[0] != (CallCount{"ModelInfer", "Unavailable", 1}) ||
		calls[1] != (CallCount{"ServerLive", "OK", 1}) {
		t.Errorf("calls %v", calls)
	}
}

func TestConnectionAge(t *testing.T) {
	ts := start(t, func(c *Config) {
		c.MaxConnectionAge, c.MaxConnectionAgeGrace = 50*time.Millisecond, 50*time.Millisecond
	})
	ts.engine.onInfer(func(ctx context.Context, _ *edgewise.Request) error {
		<-ctx.Done()
		return nil
	})
	st := ts.openStream(t, t.Context())
	if err := st.Send(raw(1)); err != nil && !errors.Is(err, io.EOF) { // io.EOF: it has ended already
		t.Fatal(err)
	}
	_, err := st.Recv()
	wantStatus(t, err, codes.Unavailable, "")
}

func TestBadConfigurationsAreRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	identity := newIdentity(t, nil)
	for _, test := range []struct {
		cfg  Config
		text string
	}{
		{Config{MaxMessageBytes: 1 << 31, MaxInflightBytes: 1 << 32}, "grpc.max_message_bytes is 2147483648: at most " +
			"2147483647"},
		{Config{MaxMessageBytes: -1}, "grpc.max_message_bytes is -1"},
		{Config{MaxInflightBytes: 1}, "grpc.max_inflight_bytes is 1: too little"},
		{Config{MaxStreams: -1}, "grpc.max_streams is -1"},
		{Config{CertificateFile: "x"}, "grpc.tls_certificate and grpc.tls_key"},
		{Config{ClientCertificateAuthorities: "x"}, "grpc.tls_client_authorities needs"},
		{Config{CertificateFile: file, KeyFile: file}, "grpc.tls_certificate "},
		{
			Config{CertificateFile: identity.certificate, KeyFile: identity.key, ClientCertificateAuthorities: file},
			"no certificate in it",
		},
		{
			Config{CertificateFile: identity.certificate, KeyFile: identity.key, ClientCertificateAuthorities: file + "x"},
			"grpc.tls_client_authorities: ",
		},
	} {
		_, err := New(test.cfg, Deps{Log: slog.New(slog.DiscardHandler)})
		if err == nil || edgewise.KindOf(err) != edgewise.Invalid || !strings.Contains(err.Error(), test.text) {
			t.Errorf("got %v, want %q", err, test.text)
		}
	}
}

// identity is a certificate for 127.0.0.1 in files.
type identity struct {
	certificate, key string
	parsed           *x509.Certificate
	private          *ecdsa.PrivateKey
}

// newIdentity makes one, signed by by or by itself.
func newIdentity(t *testing.T, by *identity) *identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:        by == nil, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.parsed, by.private
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	i := &identity{
		certificate: filepath.Join(t.TempDir(), "cert.pem"), key: filepath.Join(t.TempDir(), "key.pem"),
		private: key,
	}
	if i.parsed, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	for path, b := range map[string]*pem.Block{
		i.certificate: {Type: "CERTIFICATE", Bytes: der},
		i.key:         {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return i
}

// dialTLS calls the server as a client that trusts authority and has certificates.
func dialTLS(t *testing.T, ts *testServer, authority *identity, own ...tls.Certificate) error {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(authority.parsed)
	conn := ts.dial(t,
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
			RootCAs: pool, Certificates: own,
			MinVersion: tls.VersionTLS12,
		})))
	_, err := inference.NewGRPCInferenceServiceClient(conn).ModelInfer(t.Context(), raw(100_000))
	return err
}

func TestTLS(t *testing.T) {
	authority := newIdentity(t, nil)
	server, stranger := newIdentity(t, authority), newIdentity(t, nil)
	ts := start(t, func(c *Config) { c.CertificateFile, c.KeyFile = server.certificate, server.key })
	if err := dialTLS(t, ts, authority); err != nil {
		t.Error(err)
	}
	wantStatus(t, dialTLS(t, ts, stranger), codes.Unavailable, "certificate")
	_, err := inference.NewGRPCInferenceServiceClient(
		ts.dial(t, grpc.WithTransportCredentials(insecure.NewCredentials()))).ServerLive(t.Context(),
		&inference.ServerLiveRequest{})
	wantStatus(t, err, codes.Unavailable, "")
}

func TestMutualTLS(t *testing.T) {
	authority := newIdentity(t, nil)
	server, client, stranger := newIdentity(t, authority), newIdentity(t, authority), newIdentity(t, nil)
	ts := start(t, func(c *Config) {
		c.CertificateFile, c.KeyFile, c.ClientCertificateAuthorities = server.certificate, server.key, authority.certificate
	})
	pair := func(i *identity) tls.Certificate {
		own, err := tls.LoadX509KeyPair(i.certificate, i.key)
		if err != nil {
			t.Fatal(err)
		}
		return own
	}
	if err := dialTLS(t, ts, authority, pair(client)); err != nil {
		t.Error(err)
	}
	wantStatus(t, dialTLS(t, ts, authority), codes.Unavailable, "")
	wantStatus(t, dialTLS(t, ts, authority, pair(stranger)), codes.Unavailable, "")
}
