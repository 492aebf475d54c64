// Command generate makes the Go files of package inference from its .proto files: with the compiler that is a Go module
// of this project, and with the generators that tools.mod pins. It is run from the root of the repository.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/pluginpb"
)

// folder is where the .proto files stand and the Go files go, below the root of the repository.
const folder = "api/inference"

func main() {
	files, err := generate(context.Background(), ".")
	for name, text := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// generate returns the generated files by name. root is the root of the repository.
func generate(ctx context.Context, root string) (map[string]string, error) {
	request, err := compile(ctx, filepath.Join(root, folder))
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, tool := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		if err := run(ctx, root, tool, request, files); err != nil {
			return nil, fmt.Errorf("%s: %w", tool, err)
		}
	}
	return files, nil
}

// compile makes what a generator reads on its standard input.
func compile(ctx context.Context, dir string) ([]byte, error) {
	names := []string{"model_config.proto", "grpc_service.proto"} // imported files first
	compiler := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{dir}},
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	compiled, err := compiler.Compile(ctx, names...)
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: names, Parameter: proto.String("paths=source_relative")}
	for _, name := range names {
		file := compiled.FindFileByPath(name)
		request.ProtoFile = append(request.ProtoFile, protoutil.ProtoFromFileDescriptor(file))
	}
	return proto.Marshal(request)
}

// run runs one generator and adds what it makes to files.
func run(ctx context.Context, root, tool string, request []byte, files map[string]string) error {
	cmd := exec.CommandContext(ctx, "go", "tool", "-modfile=tools.mod", tool)
	cmd.Dir, cmd.Stdin, cmd.Stderr = root, bytes.NewReader(request), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return fmt.Errorf("%s", response.GetError())
	}
	for _, f := range response.File {
		files[f.GetName()] = f.GetContent()
	}
	return nil
}
