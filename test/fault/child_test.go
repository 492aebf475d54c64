package fault

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store"
)

// child changes a store until it is killed.
type child struct {
	store  *store.Store
	random *rand.Rand
	out    io.Writer
	bodies map[string][]byte // of the upload in hand
}

// maxVersions is how many versions of a model the child keeps before it deletes.
const maxVersions = 6

func changeForever(dir string, seed uint64, out io.Writer) error {
	s, err := store.Open(dir, store.Options{SnapshotEvery: 5 * time.Millisecond, Snapshots: 2})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, "open"); err != nil {
		return err
	}
	c := &child{store: s, random: rand.New(rand.NewPCG(seed, 2)), out: out}
	for {
		if err := c.one(); err != nil {
			return err
		}
	}
}

// one says a change, does it, and acknowledges it.
func (c *child) one() error {
	next := c.pick(stateOf(c.store.Records()))
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c.out, "try %s\n", text); err != nil {
		return err
	}
	if err := c.do(next); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	_, err = fmt.Fprintln(c.out, "done")
	return err
}

// pick chooses a change that can succeed.
func (c *child) pick(s *state) *change {
	name := []string{"cat", "dog", "cow"}[c.random.IntN(3)]
	m := s.models[name]
	if m == nil {
		return c.upload(name)
	}
	numbers := slices.Sorted(maps.Keys(m.Versions))
	label := []string{edgewise.LiveLabel, "beta"}[c.random.IntN(2)]
	free := m.free()
	switch roll := c.random.IntN(20); {
	case roll < 5 || len(free) > maxVersions:
		if len(free) > 0 {
			return &change{Do: "delete", Model: name, Version: free[c.random.IntN(len(free))]}
		}
	case roll < 9:
		return &change{Do: "promote", Model: name, Label: label, Version: numbers[c.random.IntN(len(numbers))]}
	case roll < 12:
		if _, ok := m.back(m.Labels[label]); ok {
			return &change{Do: "rollback", Model: name, Label: label}
		}
	case roll < 13:
		if m.Labels[label].Version > 0 {
			return &change{Do: "unlabel", Model: name, Label: label}
		}
	case roll < 14:
		return &change{Do: "want", Model: name, Wanted: !m.Wanted}
	case roll < 15:
		return &change{Do: "delete model", Model: name}
	}
	return c.upload(name)
}

// upload makes up the files of a version: some that other versions have too, some of its own.
func (c *child) upload(name string) *change {
	next := &change{Do: "upload", Model: name, Files: make(map[string]edgewise.Digest)}
	c.bodies = make(map[string][]byte)
	for i := range 1 + c.random.IntN(4) {
		seed, size := c.random.Uint64(), c.random.IntN(64<<10)
		if c.random.IntN(8) == 0 {
			size = c.random.IntN(2 << 20)
		}
		if c.random.IntN(2) == 0 { // shared
			seed = c.random.Uint64N(5)
			size = int(seed) * 5000
		}
		body := make([]byte, size)
		_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24)}).Read(body)
		path := fmt.Sprintf("%sfile%d.bin", []string{"", "a/", "a/b/"}[c.random.IntN(3)], i)
		sum := sha256.Sum256(body)
		next.Files[path], c.bodies[path] = edgewise.Digest(hex.EncodeToString(sum[:])), body
	}
	return next
}

func (c *child) do(next *change) error {
	ctx, s := context.Background(), c.store
	switch next.Do {
	case "upload":
		return c.put(ctx, next)
	case "promote":
		_, err := s.SetLabel(ctx, next.Model, next.Label, next.Version)
		return err
	case "rollback":
		_, err := s.Rollback(ctx, next.Model, next.Label)
		return err
	case "unlabel":
		return s.RemoveLabel(ctx, next.Model, next.Label)
	case "want":
		return s.SetWanted(ctx, next.Model, next.Wanted)
	case "delete":
		return s.DeleteVersion(ctx, edgewise.ModelID{Name: next.Model, Version: next.Version})
	case "delete model":
		return s.DeleteModel(ctx, next.Model)
	}
	return fmt.Errorf("unknown change %q", next.Do)
}

func (c *child) put(ctx context.Context, next *change) error {
	g, err := c.store.Begin(ctx, -1)
	if err != nil {
		return err
	}
	for path, body := range c.bodies {
		if _, err := g.Add(ctx, path, int64(len(body)), bytes.NewReader(body)); err != nil {
			return errors.Join(err, g.Discard())
		}
	}
	_, err = c.store.Put(ctx, g, edgewise.Version{
		ID:    edgewise.ModelID{Name: next.Model},
		Model: &edgewise.Model{Name: next.Model}, Origin: "fault",
	})
	return errors.Join(err, g.Discard())
}
