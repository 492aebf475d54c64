#!/bin/bash
# Makes a driver extension of a folder, and signs it: docs/formats/driver.md.
#
#   configs/drivers/pack.sh TREE MANIFEST KEY OUT
#
# MANIFEST is a JSON object in one line without size and sha256, which are added; KEY is a secret key of minisign without a password.
# The same inputs, SOURCE_DATE_EPOCH and LEVEL (of zstd, 1 to 22) make the same file system; the signature has the time in it.
set -euo pipefail

[ $# -eq 4 ] || { echo "pack.sh: want four words: pack.sh TREE MANIFEST KEY OUT" >&2; exit 1; }
tree=$1 manifest=$2 key=$3 out=$4
: "${SOURCE_DATE_EPOCH:?}"
export SOURCE_DATE_EPOCH
header=65536 # bytes in front of the file system: driver.HeaderBytes

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
find "$tree" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
mksquashfs "$tree" "$work/fs" -comp zstd -Xcompression-level "${LEVEL:-19}" -b 256K -all-root -noappend -quiet -no-progress -no-exports -no-xattrs >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
size=$(wc -c <"$work/fs")
printf 'edgewise-driver 1\n%s,"size":%d,"sha256":"%s"}\n' "${manifest%\}}" "$size" "$(sha256sum "$work/fs" | cut -d' ' -f1)" >"$work/head"
minisign -S -s "$key" -m "$work/head" -x "$work/signature" -t "edgewise driver" </dev/null >/dev/null
cat "$work/signature" >>"$work/head"
[ "$(wc -c <"$work/head")" -le $header ] || { echo "pack.sh: the manifest and its signature have more than $header bytes" >&2; exit 1; }
truncate -s $header "$work/head"
mkdir -p "$(dirname "$out")"
cat "$work/head" "$work/fs" >"$out.new"
mv "$out.new" "$out"
echo "$out: $(($(wc -c <"$out") / 1000000)) MB"
