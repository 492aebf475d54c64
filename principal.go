package edgewise

import (
	"context"
	"strings"
)

// Rights is a set of rights.
type Rights uint8

// The rights. Everything else is put together of them.
const (
	Read       Rights = 1 << iota // look at models, statistics and the state of the box
	Infer                         // run models
	Operate                       // change models and what serves
	Admin                         // change accounts, settings and certificates
	Recordings                    // record requests of clients, and look at what was recorded

	AllRights = Read | Infer | Operate | Admin | Recordings
)

// rightNames are the names of the single rights, in order.
var rightNames = [...]string{"read", "infer", "operate", "admin", "record"}

// Names returns the names of the rights in the set.
func (r Rights) Names() []string {
	names := []string{}
	for i, name := range rightNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// Principal is an authenticated caller. It is not changed once it is made.
type Principal struct {
	Kind    string   // "person", "key", "local" (a program on the box), "open" (accounts are off), "box" (the box itself)
	Name    string   // of the person or the key
	Rights  Rights   // what it may do
	Origins []string // of a key: those whose pages may use it in a browser, "*" for all; empty: none but the server's own
	Models  []string // the models it may name, "*" at the end of one stands for anything; empty: all
	Session string   // of a person: which session; empty otherwise

	// Lifetime ends when this does not hold any more: the key was deleted, the session has ended, rights were taken away.
	// Its cause is what the caller is told. Everything that is done for the caller ends with it. Nil: it holds for good.
	Lifetime context.Context
}

// Revoked returns why p does not hold any more, nil while it does.
func (p *Principal) Revoked() error {
	if p == nil || p.Lifetime == nil || p.Lifetime.Err() == nil {
		return nil
	}
	return context.Cause(p.Lifetime)
}

// Actor returns the name that stands in logs, such as "person:anna" or "local".
func (p *Principal) Actor() string {
	switch {
	case p == nil:
		return "nobody"
	case p.Name == "":
		return p.Kind
	}
	return p.Kind + ":" + p.Name
}

// MayName tells whether p may name a model. A model of "" stands for all of them.
func (p *Principal) MayName(model string) bool {
	if len(p.Models) == 0 {
		return true
	}
	for _, pattern := range p.Models {
		if prefix, open := strings.CutSuffix(pattern, "*"); pattern == model && model != "" || open &&
			(prefix == "" || model != "" && strings.HasPrefix(model, prefix)) {
			return true
		}
	}
	return false
}

type principalKey struct{}

// WithPrincipal returns a context that carries the authenticated caller.
func WithPrincipal(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// PrincipalOf returns the authenticated caller that ctx carries, or nil.
func PrincipalOf(ctx context.Context) *Principal {
	p, _ := ctx.Value(principalKey{}).(*Principal)
	return p
}
