#!/bin/sh
# Fetches llama.cpp's libraries for Linux and places them beside the backend that loads them.
#
#   configs/llama/fetch.sh CACHE TARGET [ARCH]   e.g. .cache/runtime bin/lib/backends/llama amd64
#
# ARCH is amd64 (x64, x86_64) or arm64 (aarch64), by default GOARCH or this machine's. The libraries come out of the npm
# package @node-llama-cpp/linux-ARCH at a fixed version (npm pack: nothing of it is run), 11 MB. The package and the
# libraries must have the SHA-256 in SHA256SUMS. When TARGET holds the libraries already, nothing is fetched or written.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/../npm.sh"
version=3.22.1
[ $# -eq 2 ] || [ $# -eq 3 ] || fail "want two folders and perhaps an architecture: fetch.sh CACHE TARGET [ARCH]"
cache=$1
target=$2
arch=$(processor llama.cpp "${3:-}")
tarball=node-llama-cpp-linux-$arch-$version.tgz

license LICENSE.llama.cpp "$target"
names=$(sed -n "s|.*  $arch/||p" "$here/SHA256SUMS")
missing=no
for name in $names; do
	good "$target/$name" "$arch/$name" || missing=yes
done
if [ $missing = no ]; then
	exit 0
fi
package "@node-llama-cpp/linux-$arch@$version" "$tarball" "11 MB"
for name in $names; do
	library "$tarball" "bins/linux-$arch/$name" "$target/$name" "$arch/$name"
done
