package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// manifestFormat is the number of the manifest's format. A reader refuses a higher one.
const manifestFormat = 1

// manifest is what stands beside a version's files: everything from which its catalog entry can be made again.
type manifest struct {
	Format  int              `json:"format"`
	ID      edgewise.ModelID `json:"id"`
	Digest  edgewise.Digest  `json:"digest"`
	Size    int64            `json:"size"`
	Created time.Time        `json:"created"`
	Origin  string           `json:"origin"`
	Files   []edgewise.File  `json:"files"`
	Model   json.RawMessage  `json:"model"`
}

// encodeManifest returns the manifest of v and sets v.Digest.
func encodeManifest(v *edgewise.Version) ([]byte, error) {
	model, err := json.Marshal(v.Model)
	if err != nil {
		return nil, err
	}
	if v.Digest, err = digestOf(model, v.Files); err != nil {
		return nil, err
	}
	m := manifest{manifestFormat, v.ID, v.Digest, v.Size, v.Created, v.Origin, v.Files, model}
	data, err := json.MarshalIndent(&m, "", "  ")
	return append(data, '\n'), err
}

// digestOf returns the SHA-256 over {"model":M,"files":F}: M is the declaration as stored, compact, and F the list of
// files sorted by path. Stored bytes are hashed, so a later release that knows more fields finds the same digest.
func digestOf(model []byte, files []edgewise.File) (edgewise.Digest, error) {
	list, err := json.Marshal(files)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	b.WriteString(`{"model":`)
	if err := json.Compact(&b, model); err != nil {
		return "", err
	}
	b.WriteString(`,"files":`)
	b.Write(list)
	b.WriteByte('}')
	sum := sha256.Sum256(b.Bytes())
	return edgewise.Digest(hex.EncodeToString(sum[:])), nil
}

// readManifest reads the manifest in a version's folder and checks that it is about id and agrees with itself.
func readManifest(folder string, id edgewise.ModelID) (*edgewise.Version, error) {
	data, err := ReadBounded(filepath.Join(folder, manifestFile), MaxManifestBytes)
	if err != nil {
		return nil, err
	}
	return decodeManifest(data, id)
}

func decodeManifest(data []byte, id edgewise.ModelID) (*edgewise.Version, error) {
	var m manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("%s: %w", manifestFile, err)
	}
	if m.Format != manifestFormat {
		return nil, fmt.Errorf("%s has format %d: this release reads format %d", manifestFile, m.Format, manifestFormat)
	}
	if m.ID != id {
		return nil, fmt.Errorf("%s is about %s, its folder about %s", manifestFile, m.ID, id)
	}
	return m.version()
}

func (m *manifest) version() (*edgewise.Version, error) {
	digest, err := digestOf(m.Model, m.Files)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", manifestFile, err)
	}
	if digest != m.Digest {
		return nil, fmt.Errorf("%s was altered: its digest is %.12s, its content has %.12s", manifestFile, m.Digest, digest)
	}
	v := &edgewise.Version{ID: m.ID, Files: m.Files, Digest: m.Digest, Size: m.Size, Created: m.Created, Origin: m.Origin}
	if err := json.Unmarshal(m.Model, &v.Model); err != nil {
		return nil, fmt.Errorf("%s: model: %w", manifestFile, err)
	}
	return v, checkStored(v)
}

// checkStored tells whether a version that was read from disk may be used to build paths.
func checkStored(v *edgewise.Version) error {
	if err := edgewise.CheckName(v.ID.Name); err != nil {
		return err
	}
	if v.ID.Version <= 0 || v.Model == nil {
		return fmt.Errorf("%s has no valid number or no declaration", v.ID)
	}
	for _, f := range v.Files {
		if err := edgewise.CheckPath(f.Path); err != nil {
			return err
		}
		if !isHex(string(f.Digest), digestLength) || f.Size < 0 {
			return fmt.Errorf("file %q has no valid size or digest", f.Path)
		}
	}
	return nil
}

// ReadBounded reads a file of at most limit bytes. The error of a longer file names both.
func ReadBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("file %q has more than %d bytes", filepath.Base(path), limit)
	}
	return data, err
}
