package appliance

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/edgewise-ai/edgewise"
)

// doors are where clients come in.
type doors struct {
	app        *App
	rest, grpc net.Listener // grpc is nil when there is no gRPC server
	serving    sync.WaitGroup
}

// open listens at every door, or at none. Errors: Unavailable, naming the key of the address.
func (a *App) open() (*doors, error) {
	const op = "appliance.Run"
	d := &doors{app: a}
	var err error
	if d.rest, err = net.Listen("tcp", a.config.HTTP.Address); err != nil {
		return nil, edgewise.Errorf(op, edgewise.Unavailable, "http.address: %w", err)
	}
	if a.grpc == nil {
		return d, nil
	}
	if d.grpc, err = net.Listen("tcp", a.config.GRPC.Address); err != nil {
		return nil, errors.Join(edgewise.Errorf(op, edgewise.Unavailable, "grpc.address: %w", err), d.rest.Close())
	}
	return d, nil
}

// serve lets clients in. What it returns gets the first word of each door that is closed.
func (d *doors) serve() <-chan error {
	served := make(chan error, 2)
	d.serving.Go(func() { served <- d.app.door.Serve(d.app.sniffed(d.rest)) })
	if d.grpc != nil {
		d.serving.Go(func() { served <- d.app.grpc.Serve(d.grpc) })
	}
	return served
}

// announce tells the program where the doors are.
func (d *doors) announce(hooks Hooks) {
	if d.grpc != nil && hooks.ListeningGRPC != nil {
		hooks.ListeningGRPC(d.grpc.Addr())
	}
	if hooks.Listening != nil {
		hooks.Listening(d.rest.Addr())
	}
}

// closeDoors answers what is in progress at every door, at the same time, and lets nobody in any more.
func (a *App) closeDoors(ctx context.Context) error {
	var work sync.WaitGroup
	var rest, grpc error
	if a.grpc != nil {
		work.Go(func() { grpc = a.grpc.Shutdown(ctx) })
	}
	rest = a.door.Shutdown(ctx)
	work.Wait()
	return errors.Join(rest, grpc)
}
