package grpcapi

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/edgewise-ai/edgewise/appliance/frontend"
)

// Config bounds the server. A field that is 0 or empty stands for its default, where there is one.
type Config struct {
	MaxMessageBytes  int64         // of a message, in either direction and before and after decompression
	MaxInflightBytes int64         // of the inference requests being answered, together
	MaxDecodedBytes  int64         // of the tensors of a request sent in typed contents, after conversion
	MaxConnections   int           // open at once
	MaxStreams       int           // calls in progress on one connection
	ConnectTimeout   time.Duration // for the handshakes of a new connection, TLS included
	RequestTimeout   time.Duration // for one inference; 0: the client's timeout alone

	KeepaliveTime                time.Duration // without activity of a client, before the server pings it
	KeepaliveTimeout             time.Duration // for the client's answer to a ping
	KeepaliveMinInterval         time.Duration // between pings of a client; a client that pings more often is disconnected
	KeepalivePermitWithoutCalls  bool          // whether a client may ping without a call in progress
	MaxConnectionAge             time.Duration // after which a connection is closed; 0: never
	MaxConnectionAgeGrace        time.Duration // for calls in progress when it is closed; 0: no bound
	CertificateFile, KeyFile     string        // PEM; both: the server speaks TLS only
	ClientCertificateAuthorities string        // PEM file: clients need a certificate of one of these

	CompressionLevel int // of answers with tensors, from 1 to 9, with gzip; 0: they are not compressed
	// matches the keys of metadata that become parameters of inference requests; empty: none
	ForwardHeaders string
	Restricted     []frontend.Restriction // the APIs that need a value in the metadata
	TrustedProxies []string               // addresses and networks whose frontend.ForwardedFor is believed

	TLS   *tls.Config              // without CertificateFile; nil: plain text
	Plain func(peer net.Addr) bool // which peers may speak plain text beside TLS; needed with it
}

// Defaults and bounds of Config.
const (
	LargestMessageBytes         = math.MaxInt32 // the protocol's own bound
	DefaultMaxMessageBytes      = 256 << 20
	DefaultMaxInflightBytes     = 1 << 30
	DefaultMaxConnections       = 1024
	DefaultMaxStreams           = 1024
	DefaultConnectTimeout       = 10 * time.Second
	DefaultKeepaliveTime        = 2 * time.Hour
	DefaultKeepaliveTimeout     = 20 * time.Second
	DefaultKeepaliveMinInterval = 5 * time.Minute

	maxHeaderBytes = 16 << 10 // of a call's metadata
)

// completed returns c with defaults filled in, or every reason why it cannot work.
func (c Config) completed() (Config, error) {
	problems := []error{
		frontend.Fill("grpc.max_message_bytes", &c.MaxMessageBytes, DefaultMaxMessageBytes),
		frontend.Fill("grpc.max_inflight_bytes", &c.MaxInflightBytes, DefaultMaxInflightBytes),
		frontend.Fill("MaxDecodedBytes", &c.MaxDecodedBytes, 0),
		frontend.Fill("grpc.max_connections", &c.MaxConnections, DefaultMaxConnections),
		frontend.Fill("grpc.max_streams", &c.MaxStreams, DefaultMaxStreams),
		frontend.Fill("grpc.connect_timeout", &c.ConnectTimeout, DefaultConnectTimeout),
		frontend.Fill("engine.request_timeout", &c.RequestTimeout, 0),
		frontend.Fill("grpc.keepalive_time", &c.KeepaliveTime, DefaultKeepaliveTime),
		frontend.Fill("grpc.keepalive_timeout", &c.KeepaliveTimeout, DefaultKeepaliveTimeout),
		frontend.Fill("grpc.keepalive_min_interval", &c.KeepaliveMinInterval, DefaultKeepaliveMinInterval),
		frontend.Fill("grpc.max_connection_age", &c.MaxConnectionAge, 0),
		frontend.Fill("grpc.max_connection_age_grace", &c.MaxConnectionAgeGrace, 0),
	}
	if c.MaxMessageBytes > LargestMessageBytes {
		problems = append(problems, fmt.Errorf("grpc.max_message_bytes is %d: at most %d is possible", c.MaxMessageBytes,
			LargestMessageBytes))
	}
	if c.MaxMessageBytes > c.MaxInflightBytes {
		problems = append(problems, fmt.Errorf("grpc.max_inflight_bytes is %d: too little for one message of %d bytes",
			c.MaxInflightBytes, c.MaxMessageBytes))
	}
	if (c.CertificateFile == "") != (c.KeyFile == "") {
		problems = append(problems, errors.New("grpc.tls_certificate and grpc.tls_key: one without the other is of no use"))
	}
	if c.ClientCertificateAuthorities != "" && c.CertificateFile == "" {
		problems = append(problems, errors.New("grpc.tls_client_authorities needs grpc.tls_certificate and grpc.tls_key"))
	}
	return c, errors.Join(problems...)
}

// credentials reads the files of the server's TLS identity; nil when it has none.
func (c Config) credentials() (credentials.TransportCredentials, error) {
	switch {
	case c.CertificateFile == "" && c.TLS != nil:
		return &sniffing{credentials.NewTLS(c.TLS), c.Plain}, nil
	case c.CertificateFile == "":
		return nil, nil
	}
	certificate, err := tls.LoadX509KeyPair(c.CertificateFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("grpc.tls_certificate %q and grpc.tls_key %q: %w", c.CertificateFile, c.KeyFile, err)
	}
	settings := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	if c.ClientCertificateAuthorities != "" {
		text, err := os.ReadFile(c.ClientCertificateAuthorities)
		if err != nil {
			return nil, fmt.Errorf("grpc.tls_client_authorities: %w", err)
		}
		settings.ClientAuth, settings.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if !settings.ClientCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("grpc.tls_client_authorities %q: no certificate in it", c.ClientCertificateAuthorities)
		}
	}
	return credentials.NewTLS(settings), nil
}
