// Command edgewise is the appliance and its command line: it serves, and it talks to a serving box as any client does.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/edgewise-ai/edgewise/appliance/serving"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
	"github.com/edgewise-ai/edgewise/wasm"
)

func main() {
	switch { // the box has started itself; no commands for people
	case len(os.Args) == 2 && os.Args[1] == serving.ChildVerb:
		os.Exit(serving.RunChild())
	case len(os.Args) == 2 && os.Args[1] == serving.LaunchVerb:
		os.Exit(serving.RunLaunch())
	case len(os.Args) == 2 && os.Args[1] == wasm.CompilerVerb:
		os.Exit(wasm.RunCompiler())
	case len(os.Args) == 3 && os.Args[1] == serving.CheckVerb:
		os.Exit(serving.CheckRuntime(os.Args[2], os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p := &program{cli.Program{
		In: cli.Stream{Context: ctx, File: os.Stdin}, Out: cli.Stream{Context: ctx, File: os.Stdout}, Err: os.Stderr,
		Environment: os.Environ(),
	}}
	code := p.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
