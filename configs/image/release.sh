#!/bin/bash
# Makes what people download of an image: compressed, with block map, checksums and signature: release.sh VERSION KEYS OUT
set -euo pipefail

version=$1 keys=$(realpath "$2") out=$3
cd "$out"
image=edgewise-$version.img
bmaptool --quiet create -o "$image.bmap" "$image"
zstd --quiet --force -3 "$image" -o "$image.zst"
sha256sum "$image.zst" "$image.bmap" "edgewise-$version.raucb" "sbom-$version.json" >"SHA256SUMS-$version"
minisign -S -s "$keys/edgewise.key" -m "SHA256SUMS-$version" -t "edgewise $version" </dev/null >/dev/null
minisign -V -q -p "$keys/edgewise.pub" -m "SHA256SUMS-$version"
size=$(wc -c <"$image.zst")
[ "$size" -le 250000000 ] || { echo "release.sh: $image.zst has $size bytes: want at most 250 MB to download" >&2; exit 1; }
echo "$out/$image.zst: $((size / 1000000)) MB to download"
