package edgewise

import (
	"slices"
	"testing"
)

func TestRightsHaveNames(t *testing.T) {
	set, err := ParseRights([]string{"admin", "read", "read"})
	if err != nil || set != Read|Admin || !slices.Equal(set.Names(), []string{"read", "admin"}) {
		t.Errorf("%v, %v", set.Names(), err)
	}
	if _, err := ParseRights([]string{"root"}); KindOf(err) != Invalid {
		t.Errorf("a right that does not exist: %v", err)
	}
	if got := AllRights.Names(); !slices.Equal(got, RightNames()) {
		t.Errorf("all rights are %v", got)
	}
}

func TestAPrincipalMayNameItsModels(t *testing.T) {
	tests := []struct {
		name   string
		models []string
		model  string
		want   bool
	}{
		{"bound to nothing", nil, "cat", true},
		{"bound to nothing, all models", nil, "", true},
		{"its model", []string{"dog", "cat"}, "cat", true},
		{"another", []string{"cat"}, "cats", false},
		{"all models, bound to one", []string{"cat"}, "", false},
		{"pattern", []string{"face*"}, "face_2", true},
		{"pattern and another", []string{"face*"}, "fac", false},
		{"pattern and all models", []string{"face*"}, "", false},
		{"pattern of everything", []string{"*"}, "", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := (&Principal{Models: test.models}).MayName(test.model); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestActorsAreNamedInLogs(t *testing.T) {
	anna := &Principal{Kind: "person", Name: "anna"}
	if got := ActorOf(WithPrincipal(t.Context(), anna)); got != "person:anna" {
		t.Error(got)
	}
	if got := ActorOf(t.Context()) + " " + (&Principal{Kind: "local"}).Actor() + " " +
		(*Principal)(nil).Actor(); got != "box local nobody" {
		t.Error(got)
	}
}
