package registry_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/models"
)

func TestDependantsThatAnotherCallerDeletesMeanwhileArePassedOver(t *testing.T) {
	h := withBoth(t)
	unlock, err := h.Lock(t.Context(), "E")
	h.Must(err)
	var callers sync.WaitGroup
	never := make(chan struct{})
	callers.Go(func() {
		if err := h.DeleteModel(t.Context(), "E"); err != nil {
			t.Error(err)
		}
	})
	h.held("E", 2, never)
	callers.Go(func() {
		if err := h.DeleteDependants(t.Context(), edgewise.ModelID{Name: "a"}); err != nil {
			t.Errorf("its dependant had gone: %v", err)
		}
	})
	h.held("E", 3, never)
	unlock() // they get the lock in this order
	callers.Wait()
	h.Must(h.DeleteModel(t.Context(), "a"))
}

func TestAModelWhoseVersionsAllGoIsNotLoadedMeanwhile(t *testing.T) {
	h := withBoth(t)
	_, err := h.PushFile("a", "a2", 0, true)
	h.Must(err)
	_, err = h.PushEnsemble("E", models.Both) // runs a2
	h.Must(err)
	for _, name := range []string{"a", "E"} {
		_, err = h.Rollback(t.Context(), name, "live")
		h.Must(err)
	}
	for _, name := range []string{"a", "E"} {
		h.Must(h.Manager.Settle(t.Context(), name))
	}
	h.Backend.Hook = func(stage, content string) error {
		if stage == "load" {
			t.Errorf("%s is loaded", content)
		}
		return nil
	}
	h.Must(h.DeleteDependants(t.Context(), edgewise.ModelID{Name: "b"}))
	if h.Lookup("E") != nil {
		t.Error("the ensemble is there")
	}
}

// TestManyModelsAreDeletedAtOnce deletes two models with the ensembles that run them, those ensembles, and their
// versions, all at once.
func TestManyModelsAreDeletedAtOnce(t *testing.T) {
	const ensembles = 8
	for range 5 {
		h := withBoth(t)
		for i := range ensembles {
			for _, config := range []string{models.Both, strings.Replace(models.Both, `model_name: "b"`, `model_name: "a"`, 1)} {
				_, err := h.PushEnsemble(fmt.Sprint("E", i), config)
				h.Must(err)
			}
		}
		var callers sync.WaitGroup
		whole := func(name string) {
			callers.Go(func() {
				if err := h.DeleteDependants(t.Context(), edgewise.ModelID{Name: name}); err != nil {
					t.Errorf("what runs %s: %v", name, err)
				}
				if err := h.DeleteModel(t.Context(), name); err != nil && edgewise.KindOf(err) != edgewise.NotFound {
					t.Error(err)
				}
			})
		}
		for _, name := range []string{"a", "b", "a", "b"} {
			whole(name)
		}
		for i := range ensembles {
			whole(fmt.Sprint("E", i))
			callers.Go(func() {
				err := h.DeleteVersion(t.Context(), edgewise.ModelID{Name: fmt.Sprint("E", i), Version: 1})
				if err != nil && edgewise.KindOf(err) != edgewise.NotFound && edgewise.KindOf(err) != edgewise.Conflict {
					t.Error(err)
				}
			})
		}
		callers.Wait()
		if left := h.Records(); len(left) > 0 {
			t.Errorf("%d models are left, the first is %s", len(left), left[0].Name)
		}
	}
}
