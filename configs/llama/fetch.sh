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
version=3.22.1

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
*) fail "there is no llama.cpp for ${3:-${GOARCH:-$(uname -m)}} here: want amd64 or arm64" ;;
esac
tarball=node-llama-cpp-linux-$arch-$version.tgz

# check FOLDER PREFIX: whether FOLDER holds every file whose name in SHA256SUMS begins with PREFIX, as it is there.
check() {
	sed -n "s|  $2|  $1/|p" "$here/SHA256SUMS" | sha256sum --check --status -
}

mkdir -p "$target"
cmp -s "$here/LICENSE.llama.cpp" "$target/LICENSE.llama.cpp" || cp "$here/LICENSE.llama.cpp" "$target/LICENSE.llama.cpp"
if check "$target" "$arch/" 2>/dev/null; then
	exit 0
fi
package() { grep "  $tarball\$" "$here/SHA256SUMS" | sed "s|  |  $cache/|" | sha256sum --check --status - 2>/dev/null; }
if ! package; then
	command -v npm >/dev/null 2>&1 || fail "npm is needed to fetch llama.cpp: install Node.js, or put the package at $cache/$tarball"
	echo "fetching @node-llama-cpp/linux-$arch@$version (11 MB)"
	mkdir -p "$cache"
	npm pack --loglevel=error --ignore-scripts --pack-destination "$cache" "@node-llama-cpp/linux-$arch@$version" >/dev/null ||
		fail "npm could not fetch @node-llama-cpp/linux-$arch@$version: see its message above"
	package || fail "$cache/$tarball is not the package that is expected: its SHA-256 is not that in $here/SHA256SUMS"
fi
members=$(sed -n "s|.*  $arch/|package/bins/linux-$arch/|p" "$here/SHA256SUMS")
# shellcheck disable=SC2086 # names without spaces
tar -xzf "$cache/$tarball" --no-same-owner --strip-components=3 -C "$target" $members
check "$target" "$arch/" || fail "the libraries in $target are not those that are expected"
