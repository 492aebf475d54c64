#!/bin/bash
# Makes the disk image of a slot: ESP and slot A; slot B and the data partition are made at the first boot.
#
#   configs/image/disk.sh VERSION CACHE OUT
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
version=$1 cache=$2 out=$3
: "${SOURCE_DATE_EPOCH:?}"
export SOURCE_DATE_EPOCH
work=$out/disk
rm -rf "$work"
mkdir -p "$work/esp/EFI/BOOT" "$work/esp/EFI/debian" "$work/signed"

for package in "$cache"/efi/*.deb; do dpkg-deb -x "$package" "$work/signed"; done
cp "$work/signed/usr/lib/shim/shimx64.efi.signed" "$work/esp/EFI/BOOT/BOOTX64.EFI"
cp "$work/signed/usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed" "$work/esp/EFI/BOOT/grubx64.efi"
cp "$here/esp/grub.cfg" "$work/esp/EFI/debian/grub.cfg"
cp "$here/esp/edgewise.conf.example" "$work/esp/"
grub-editenv "$work/esp/EFI/debian/grubenv" create
grub-editenv "$work/esp/EFI/debian/grubenv" set ORDER="A B" A_OK=1 A_TRY=0 B_OK=0 B_TRY=0
find "$work/esp" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

# align: an ESP that does not begin at a whole mebibyte is erased by systemd-repart on the first boot
cat >"$work/genimage.cfg" <<CFG
image esp.vfat {
  vfat { label = "EDGEWISE" extraargs = "-i ED6E0001 --invariant" }
  size = 64M
  mountpoint = "/"
}
image edgewise.img {
  hdimage { align = 1M partition-table-type = "gpt" disk-uuid = "ed6e0000-0000-4000-8000-000000000001" }
  partition edgewise-esp { image = "esp.vfat" partition-type-uuid = "U" partition-uuid = "ed6e0000-0000-4000-8000-000000000010" }
  partition edgewise-a { image = "slot-$version.squashfs" size = 500M partition-type-uuid = "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709" partition-uuid = "ed6e0000-0000-4000-8000-00000000000a" }
}
CFG
genimage --config "$work/genimage.cfg" --rootpath "$work/esp" --inputpath "$out" --outputpath "$work/out" --tmppath "$work/tmp" >"$work/log" 2>&1 ||
	{ tail -n 20 "$work/log"; exit 1; }
image=$out/edgewise-$version.img
mv "$work/out/edgewise.img" "$image"
rm -rf "$work"
sgdisk --verify "$image" | grep -q "No problems found" || { sgdisk --verify "$image"; exit 1; }
echo "$image: $(($(wc -c <"$image") / 1000000)) MB"
