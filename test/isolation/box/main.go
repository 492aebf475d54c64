// Command box is a box whose models may be faulty, for measurements: box DATA_FOLDER LIBRARY. It prints as edgewise
// does and serves until it is told to stop.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/edgewise-ai/edgewise/appliance"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/runner"
	"github.com/edgewise-ai/edgewise/appliance/serving"
	"github.com/edgewise-ai/edgewise/test/isolation/faulty"
	"github.com/edgewise-ai/edgewise/wasm"
)

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == serving.ChildVerb:
		os.Exit(runner.Serve(faulty.New))
	case len(os.Args) == 2 && os.Args[1] == wasm.CompilerVerb:
		os.Exit(wasm.RunCompiler())
	case len(os.Args) == 3 && os.Args[1] == serving.CheckVerb:
		os.Exit(serving.CheckRuntime(os.Args[2], os.Stdout))
	case len(os.Args) != 3:
		fmt.Fprintln(os.Stderr, "usage: box DATA_FOLDER LIBRARY")
		os.Exit(2)
	}
	if err := serve(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "box:", err)
		os.Exit(1)
	}
}

func serve(dataDir, library string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	debug.SetGCPercent(200) // as edgewise serve does
	c := config.Default()
	c.Auth, c.GRPC.Address, c.Metrics.Address = config.AuthOpen, "127.0.0.1:0", ""
	c.DataDir, c.HTTP.Address, c.Store.ReserveBytes, c.ONNX.Library = dataDir, "127.0.0.1:0", 0, library
	app, err := appliance.New(c, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	if err != nil {
		return err
	}
	return app.Run(ctx, nil, appliance.Hooks{
		Listening: func(a net.Addr) { fmt.Printf("box listens on http://%v\n", a) },
		Ready:     func() { fmt.Println("ready") },
	})
}
