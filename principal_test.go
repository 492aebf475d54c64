package edgewise

import (
	"slices"
	"testing"
)

func TestRightsHaveNames(t *testing.T) {
	if got := (Read | Admin).Names(); !slices.Equal(got, []string{"read", "admin"}) {
		t.Errorf("%v", got)
	}
	if got := AllRights.Names(); !slices.Equal(got, rightNames[:]) {
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
	if got := PrincipalOf(WithPrincipal(t.Context(), anna)).Actor(); got != "person:anna" {
		t.Error(got)
	}
	if got := (&Principal{Kind: "local"}).Actor() + " " +
		(*Principal)(nil).Actor(); got != "local nobody" {
		t.Error(got)
	}
}
