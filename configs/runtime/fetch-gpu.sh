#!/bin/sh
# Fetches ONNX Runtime's providers for CUDA and TensorRT for Linux on x86-64, and places them beside the runtime itself.
#
#   configs/runtime/fetch-gpu.sh CACHE TARGET   e.g. .cache/runtime bin/lib
#
# They come out of an npm package at a fixed version (npm pack: nothing of it is run), which was built of the same release as
# the runtime that fetch.sh places: provider and runtime share an interface that holds within one release only. The package and
# each library must have the SHA-256 in SHA256SUMS. When TARGET holds the libraries already, nothing is fetched or written.
# NVIDIA's own libraries (CUDA 13, cuDNN 9) are not part of this: see docs/gpu.md.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/../npm.sh"
spec=com.github.asus4.onnxruntime.linux-x64-gpu@0.4.9
tarball=com.github.asus4.onnxruntime.linux-x64-gpu-0.4.9.tgz
libraries="libonnxruntime_providers_shared.so libonnxruntime_providers_cuda.so libonnxruntime_providers_tensorrt.so"
[ $# -eq 2 ] || fail "want two folders: fetch-gpu.sh CACHE TARGET"
cache=$1
target=$2

case ${GOARCH:-$(uname -m)} in
amd64 | x64 | x86_64) ;;
*) fail "there are no providers for GPUs here but for x86-64: on a Jetson, see docs/jetson.md" ;;
esac

complete=yes
for name in $libraries; do
	good "$target/$name" "gpu/$name" || complete=no
done
if [ $complete = yes ]; then
	exit 0
fi
package "$spec" "$tarball" "179 MB"
mkdir -p "$target"
for name in $libraries; do
	library "$tarball" "Plugins/Linux/x64/$name" "$target/$name" "gpu/$name"
done
