#!/bin/sh
# Fetches ONNX Runtime's shared library for Linux and places it under the name that it is loaded by.
#
#   configs/runtime/fetch.sh CACHE TARGET [ARCH]   e.g. .cache/runtime dist/linux-amd64/lib amd64
#
# ARCH is amd64 (x64, x86_64) or arm64 (aarch64), by default GOARCH or this machine's. The library comes out of the npm
# package onnxruntime-node at a fixed version (npm pack: nothing of it is run). The package and the library must have the
# SHA-256 in SHA256SUMS. When TARGET holds the library already, nothing is fetched or written.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/../npm.sh"
spec=onnxruntime-node@1.29.0
tarball=onnxruntime-node-1.29.0.tgz
library=libonnxruntime.so.1
[ $# -eq 2 ] || [ $# -eq 3 ] || fail "want two folders and perhaps an architecture: fetch.sh CACHE TARGET [ARCH]"
cache=$1
target=$2
arch=$(processor "ONNX Runtime" "${3:-}")
member=bin/napi-v6/linux/$arch/$library

license LICENSE.onnxruntime "$target"
if good "$target/$library" "$member"; then
	exit 0
fi
package "$spec" "$tarball" "112 MB"
library "$tarball" "$member" "$target/$library" "$member"
