#!/bin/bash
# Packs all that gputest needs into one folder: the program, gputest (the test of this folder), ONNX Runtime, and its provider with the code for one
# generation of GPUs. The program is without its page, which takes 6 MiB.
#
#   test/gpu/bundle.sh RUNTIME PROVIDERS TARGET [GENERATION]   e.g. bin/lib .cache/gpu dist/gpu-test 90
#
# The bundle is to be at most 63 MiB.
set -euo pipefail
runtime=$1 providers=$2 target=$3 generation=${4:-90}
mkdir -p "$target"
rm -rf "${target:?}"/*
overlay=$(mktemp)
trap 'rm -f "$overlay"' EXIT
printf '{"Replace": {%s}}\n' "$(find "$PWD/webui/dist" -type f ! -name stub.html | sed 's/.*/"&": ""/' | paste -sd,)" >"$overlay"
go build -trimpath -ldflags="-s -w" -overlay "$overlay" -o "$target/edgewise" ./cmd/edgewise
go test -c -trimpath -ldflags="-s -w" -o "$target/gputest" ./test/gpu
go run ./test/gpu/prune "$providers/libonnxruntime_providers_cuda.so" "$target/libonnxruntime_providers_cuda.so" "$generation"
cp "$providers/libonnxruntime_providers_shared.so" "$runtime/libonnxruntime.so.1" "$target/"
xz -T0 -6 "$target"/edgewise "$target"/gputest "$target"/*.so "$target"/*.so.1
cp test/gpu/run.sh "$target/"
size=$(du -sb "$target" | cut -f1)
echo "$target: $((size >> 20)) MiB"
[ "$size" -le $((63 << 20)) ] || { echo "the bundle is larger than 63 MiB" >&2; exit 1; }
