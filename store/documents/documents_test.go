package documents

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// quiet are options without the goroutine of snapshots.
func quiet() Options { return Options{SnapshotEvery: -1} }

func mustOpen(t *testing.T, dir string) *Documents {
	t.Helper()
	d, err := Open(dir, quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func TestDocumentsAreThereAgainAfterARestart(t *testing.T) {
	dir := t.TempDir()
	d := mustOpen(t, dir)
	err := d.Update(func(tx edgewise.DocumentsTx) error {
		return errors.Join(tx.Put("a", "x", []byte("1")), tx.Put("a", "y", []byte("2")), tx.Put("b", "x", []byte("3")),
			tx.Delete("a", "y"), tx.Delete("none", "y"))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, fileName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v: want it for its owner alone", info.Mode(), err)
	}
	var seen []string
	err = mustOpen(t, dir).View(func(tx edgewise.DocumentsTx) error {
		if tx.Get("a", "y") != nil || tx.Get("none", "y") != nil || string(tx.Get("b", "x")) != "3" {
			t.Error("Get returns something else")
		}
		return tx.Each("a", func(key string, value []byte) error {
			seen = append(seen, key+string(value))
			return nil
		})
	})
	if err != nil || !slices.Equal(seen, []string{"x1"}) {
		t.Errorf("got %v, %v", seen, err)
	}
}

func TestAFailedUpdateChangesNothing(t *testing.T) {
	d := mustOpen(t, t.TempDir())
	cause := edgewise.Errorf("test", edgewise.Conflict, "no")
	err := d.Update(func(tx edgewise.DocumentsTx) error { return errors.Join(tx.Put("a", "x", []byte("1")), cause) })
	if !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
	_ = d.View(func(tx edgewise.DocumentsTx) error {
		if tx.Get("a", "x") != nil {
			t.Error("half of it is there")
		}
		return nil
	})
}

func TestWhatIsAppendedIsReadBothWays(t *testing.T) {
	d := mustOpen(t, t.TempDir())
	for range 5 {
		err := d.Update(func(tx edgewise.DocumentsTx) error {
			_, err := tx.Append("log", func(n uint64) ([]byte, error) { return fmt.Append(nil, n), nil })
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Update(func(tx edgewise.DocumentsTx) error { return tx.Drop("log", 2) }); err != nil {
		t.Fatal(err)
	}
	var got []string
	_ = d.View(func(tx edgewise.DocumentsTx) error {
		add := func(_ uint64, v []byte) bool {
			got = append(got, string(v))
			return true
		}
		for _, before := range []uint64{0, 4, 3, 2, 100} {
			tx.Backward("log", before, add)
			got = append(got, ";")
		}
		tx.Forward("log", add)
		tx.Forward("none", add)
		return nil
	})
	if text := strings.Join(got, ""); text != "543;3;;;543;345" {
		t.Error(text)
	}
}

func TestDocumentsAreOpenOnce(t *testing.T) {
	dir := t.TempDir()
	mustOpen(t, dir)
	if _, err := Open(dir, quiet()); err == nil || edgewise.KindOf(err) != edgewise.Conflict {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(filepath.Join(t.TempDir(), fileName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedDocumentsAreRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fileName), []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, quiet()); err == nil || edgewise.KindOf(err) != edgewise.Corrupt {
		t.Errorf("got %v", err)
	}
}
