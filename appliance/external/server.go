package external

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/external/remote"
)

// maxToken bounds the file of a token, in bytes.
const maxToken = 4 << 10

// server returns that of a manifest, which is the same for all its models. Errors: Invalid for a token that cannot be
// read.
func (b *Backend) server(m *Manifest) (*remote.Server, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.servers[m.Name]; s != nil {
		return s, nil
	}
	address, err := remote.ParseAddress(m.Address)
	if err != nil {
		return nil, err
	}
	token, err := readToken(m.TokenFile)
	if err != nil {
		return nil, edgewise.Errorf("external.server", edgewise.Invalid, "backend %q: token_file: %w", m.Name, err)
	}
	s, err := remote.New(remote.Config{
		Address: address, Token: token, Manage: m.Load, MaxRequest: int64(m.Input), MaxAnswer: int64(m.Output),
		LoadTimeout: m.LoadTimeout, Restarts: b.Restarts, Logger: b.Logger,
	})
	if err != nil {
		return nil, err
	}
	b.servers[m.Name] = s
	return s, nil
}

// readToken reads the first line of a file; "" for no file.
func readToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err != nil {
		return "", err
	}
	if len(text) > maxToken {
		return "", fmt.Errorf("%s has more than %d bytes", path, maxToken)
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return string(bytes.TrimSpace(line)), nil
}

// open makes an instance of a version that a server's model stands behind.
func (b *Backend) open(ctx context.Context, m *Manifest, v *edgewise.Version) (edgewise.Instance, error) {
	s, err := b.server(m)
	if err != nil {
		return nil, err
	}
	i, err := s.Open(ctx, v)
	if err != nil {
		return nil, err
	}
	return i, nil
}

// ask has a server complete a configuration. A complete one is that of a stored version, which Load compares.
func (b *Backend) ask(ctx context.Context, m *Manifest, model *edgewise.Model) (*edgewise.Inspection, error) {
	if completed(model) {
		return &edgewise.Inspection{}, nil
	}
	s, err := b.server(m)
	if err != nil {
		return nil, err
	}
	own, err := s.Describe(ctx, model)
	if err != nil {
		return nil, err
	}
	return &edgewise.Inspection{Completed: own}, nil
}

// answers tells whether a server answers now, and why it does not.
func (b *Backend) answers(ctx context.Context, m *Manifest) (usable bool, problem string) {
	s, err := b.server(m)
	if err == nil {
		err = s.Live(ctx)
	}
	if err != nil {
		return false, err.Error()
	}
	return true, ""
}
