#!/bin/sh
# Installs the compilers that the guest SDKs are tested with, where they are missing: from Debian's packages when it may, and from npm
# at the versions and checksums of the template's package-lock.json.
#
#   configs/toolchains/install.sh FOLDER        FOLDER gets node_modules, e.g. .cache/assemblyscript
#
# When a compiler cannot be had it says which one, and how to get it, and fails.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
[ $# -eq 1 ] || { echo "install.sh: want a folder for node_modules" >&2; exit 1; }
modules=$1

clang_packages="clang-19 lld-19 libclang-rt-19-dev-wasm32 wasi-libc"
rust_packages="rustc libstd-rust-dev-wasm32 lld-19"

# has_clang: whether it compiles and links a small step-like module.
has_clang() {
	for c in clang-19 clang; do
		command -v $c >/dev/null 2>&1 || continue
		work=$(mktemp -d)
		echo '#include <stdlib.h>
__attribute__((export_name("f"))) void *f(int n) { return malloc(n); }' >"$work/f.c"
		$c --target=wasm32-wasi -mexec-model=reactor -o "$work/f.wasm" "$work/f.c" 2>/dev/null && ok=0 || ok=1
		rm -rf "$work"
		return $ok
	done
	return 1
}

has_rust() {
	for r in rustc /usr/bin/rustc; do
		command -v $r >/dev/null 2>&1 || continue
		library=$($r --print target-libdir --target wasm32-unknown-unknown 2>/dev/null) && [ -d "$library" ] && return 0
	done
	return 1
}

# has_assemblyscript: whether what the lock file says is there.
has_assemblyscript() {
	cmp -s "$here/../../sdk/template/assemblyscript/package-lock.json" "$modules/package-lock.json" && [ -f "$modules/node_modules/assemblyscript/bin/asc.js" ]
}

# debian WHAT PACKAGES: installs packages when it may.
debian() {
	# shellcheck disable=SC2086
	"$here/../debian/install.sh" "steps in $1 are built with" $2 || failed=1
}

failed=0
has_clang || debian C "$clang_packages"
has_rust || debian Rust "$rust_packages"
if ! has_assemblyscript; then
	echo "installing the AssemblyScript compiler into $modules"
	mkdir -p "$modules"
	cp "$here/../../sdk/template/assemblyscript/package.json" "$here/../../sdk/template/assemblyscript/package-lock.json" "$modules/"
	npm ci --prefix "$modules" --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null || {
		rm -f "$modules/package-lock.json"
		echo "missing: the AssemblyScript compiler: npm could not fetch it, see its message above" >&2
		failed=1
	}
fi
exit $failed
