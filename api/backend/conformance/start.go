package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/edgewise-ai/edgewise/api/backend"
)

func startReady(k *Kit, _ *session, ctx context.Context) error {
	s, err := k.ready(ctx, false)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.client.Stop(); err != nil {
		return err
	}
	return s.ends(grace)
}

// grace is how long a process may take to end; the server waits as long.
const grace = 2 * time.Second

func startVersion(k *Kit, _ *session, ctx context.Context) error {
	s, err := k.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	if _, err = s.client.StartVersion(ctx, k.start(false), backend.Version+1000); err == nil {
		return errors.New("READY came")
	}
	return ctx.Err()
}

func startDescribe(k *Kit, _ *session, ctx context.Context) error {
	s, err := k.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	start := k.start(false)
	start.Describe = true
	if _, err := s.client.Start(ctx, start); err != nil {
		return err
	}
	return s.ends(grace)
}

func endSocket(k *Kit, _ *session, ctx context.Context) error {
	s, err := k.ready(ctx, false)
	if err != nil {
		return err
	}
	defer s.close()
	s.client.Close()
	select {
	case <-s.process.Done():
		return nil
	case <-time.After(grace):
		return fmt.Errorf("the process goes on after %v", grace)
	}
}
