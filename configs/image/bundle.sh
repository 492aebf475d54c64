#!/bin/bash
# Makes the signed update of a slot: bundle.sh VERSION KEYS OUT. COMPATIBLE is the kind of box that takes it; ARCH is amd64 or arm64.
set -euo pipefail

version=$1 keys=$2 out=$3
work=$out/bundle
case ${ARCH:-amd64} in amd64) kind=edgewise-x86-64 ;; *) kind=edgewise-$ARCH ;; esac
rm -rf "$work"
mkdir -p "$work"
ln "$out/slot-$version.squashfs" "$work/slot.img"
printf '[update]\ncompatible=%s\nversion=%s\n[bundle]\nformat=verity\n[image.rootfs]\nfilename=slot.img\n' "${COMPATIBLE:-$kind}" "$version" >"$work/manifest.raucm"
bundle=$out/edgewise-$version.raucb
rm -f "$bundle"
rauc --cert "$keys/release.pem" --key "$keys/release.key" --keyring "$keys/ca.pem" --mksquashfs-args='-noI -noD -noF -noX' bundle "$work" "$bundle" >"$out/bundle.log" 2>&1 ||
	{ cat "$out/bundle.log"; exit 1; }
rm -rf "$work" "$out/bundle.log"
echo "$bundle: $(($(wc -c <"$bundle") / 1000000)) MB"
