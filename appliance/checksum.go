package appliance

import (
	"context"
	"crypto/md5" //nolint:gosec // what Triton's checksum agent knows; the store has its own digests
	"encoding/hex"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
)

// checkSums holds the files in dir against the sums that a model's checksum agent wants. Errors: Corrupt, with the file
// and both sums; Internal.
func checkSums(ctx context.Context, m *edgewise.Model, dir string) error {
	sums := modelconfig.Checksums(m)
	for _, path := range slices.Sorted(maps.Keys(sums)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		got, err := sumOf(filepath.Join(dir, filepath.FromSlash(path)))
		if err != nil {
			return edgewise.Errorf("appliance.checkSums", edgewise.Internal, "model %q: file %q: %w", m.Name, path, err)
		}
		if !slices.Contains(sums[path], got) {
			return edgewise.Errorf("appliance.checkSums", edgewise.Corrupt, "model %q: file %q is not what the checksum agent expects: MD5 %s, want %s", m.Name, path, got, strings.Join(sums[path], " or "))
		}
	}
	return nil
}

func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := md5.New() //nolint:gosec // as above
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
