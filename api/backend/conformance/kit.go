// Package conformance checks that a program is a backend: each rule of docs/backends.md is one check. The backend
// serves the conformance model of that document, which does what the parameters of its requests say.
package conformance

import (
	"context"
	"fmt"
	"time"
)

// Model is the name of the conformance model.
const Model = "conformance"

// Kit checks one backend.
type Kit struct {
	Start Starter
	// Model is the folder of the conformance model for this backend, in Triton's layout.
	Model string
	// Patience is how long one check may take; 0: a minute.
	Patience time.Duration
}

// Result is the outcome of a check.
type Result struct {
	Name string // such as "run.echo"
	Rule string // a sentence
	Err  error  // nil: the backend keeps the rule
	Took time.Duration
}

// mode is the process that a check works with.
type mode int

const (
	fresh     mode = iota // one of its own, which it starts itself
	plain                 // one that is shared, with a model of one response a request
	decoupled             // the same of any number of responses
)

type check struct {
	name, rule string
	mode       mode
	run        func(k *Kit, s *session, ctx context.Context) error
}

// Run runs all checks, or those whose names only accepts, and tells of each when it has ended.
func (k *Kit) Run(ctx context.Context, only func(name string) bool, tell func(Result)) {
	patience := k.Patience
	if patience == 0 {
		patience = time.Minute
	}
	shared := map[mode]*session{}
	defer func() {
		for _, s := range shared {
			s.close()
		}
	}()
	for _, c := range checks {
		if only != nil && !only(c.name) {
			continue
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(ctx, patience)
		err := k.one(ctx, c, shared)
		cancel()
		tell(Result{c.name, c.rule, err, time.Since(began)})
	}
}

// one runs a check. A shared process in which one has failed is not used again.
func (k *Kit) one(ctx context.Context, c check, shared map[mode]*session) error {
	if c.mode == fresh {
		return c.run(k, nil, ctx)
	}
	s := shared[c.mode]
	if s == nil {
		var err error
		if s, err = k.ready(ctx, c.mode == decoupled); err != nil {
			return err
		}
		shared[c.mode] = s
	}
	s.mu.Lock()
	s.waiting = ctx
	s.mu.Unlock()
	err := c.run(k, s, ctx)
	if err == nil {
		select {
		case <-s.over:
			err = fmt.Errorf("the connection ended: %w", s.ended)
		default:
			return nil
		}
	}
	s.close()
	delete(shared, c.mode)
	return err
}

// Names returns the names of all checks.
func Names() []string {
	names := make([]string, len(checks))
	for i, c := range checks {
		names[i] = c.name
	}
	return names
}
