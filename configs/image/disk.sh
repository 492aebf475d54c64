#!/bin/bash
# Makes the disk image of a slot: ESP and slot A; slot B and the data partition are made at the first boot.
#
#   configs/image/disk.sh VERSION CACHE OUT
#
# ARCH is amd64 or arm64: UEFI starts other files there, and the serial console has another name.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
version=$1 cache=$2 out=$3
: "${SOURCE_DATE_EPOCH:?}"
export SOURCE_DATE_EPOCH
case ${ARCH:-amd64} in
amd64) efi=x64 boot=BOOTX64.EFI grub=x86_64-efi-signed type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709 ;;
arm64) efi=aa64 boot=BOOTAA64.EFI grub=arm64-efi-signed type=B921B045-1DF0-41C3-AF44-4C6F280D3FAE ;;
*) echo "disk.sh: there is no image for $ARCH: want amd64 or arm64" >&2; exit 1 ;;
esac
work=$out/disk
rm -rf "$work"
mkdir -p "$work/esp/EFI/BOOT" "$work/esp/EFI/debian" "$work/signed"

for package in "$cache"/efi/*.deb; do dpkg-deb -x "$package" "$work/signed"; done
cp "$work/signed/usr/lib/shim/shim$efi.efi.signed" "$work/esp/EFI/BOOT/$boot"
cp "$work/signed/usr/lib/grub/$grub/grub$efi.efi.signed" "$work/esp/EFI/BOOT/grub$efi.efi"
cp "$here/esp/grub.cfg" "$work/esp/EFI/debian/grub.cfg"
# UEFI for arm64 has the serial port as its console
if [ $efi = aa64 ]; then sed -i -e '/^serial /d' -e 's/^terminal_output .*/terminal_output console/' -e 's/ttyS0,/ttyAMA0,/' "$work/esp/EFI/debian/grub.cfg"; fi
cp "$here/esp/edgewise.conf.example" "$work/esp/"
grub-editenv "$work/esp/EFI/debian/grubenv" create
grub-editenv "$work/esp/EFI/debian/grubenv" set ORDER="A B" A_OK=1 A_TRY=0 B_OK=0 B_TRY=0
find "$work/esp" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

# align: an ESP that does not begin at a whole mebibyte is erased by systemd-repart on the first boot
cat >"$work/genimage.cfg" <<CFG
image esp.vfat {
  vfat { label = "EDGEWISE" extraargs = "-i ED6E0001 --invariant" }
  size = 160M
  mountpoint = "/"
}
image edgewise.img {
  hdimage { align = 1M partition-table-type = "gpt" disk-uuid = "ed6e0000-0000-4000-8000-000000000001" }
  partition edgewise-esp { image = "esp.vfat" partition-type-uuid = "U" partition-uuid = "ed6e0000-0000-4000-8000-000000000010" }
  partition edgewise-a { image = "slot-$version.squashfs" size = 500M partition-type-uuid = "$type" partition-uuid = "ed6e0000-0000-4000-8000-00000000000a" }
}
CFG
genimage --config "$work/genimage.cfg" --rootpath "$work/esp" --inputpath "$out" --outputpath "$work/out" --tmppath "$work/tmp" >"$work/log" 2>&1 ||
	{ tail -n 20 "$work/log"; exit 1; }
image=$out/edgewise-$version.img
mv "$work/out/edgewise.img" "$image"
rm -rf "$work"
sgdisk --verify "$image" | grep -q "No problems found" || { sgdisk --verify "$image"; exit 1; }
echo "$image: $(($(wc -c <"$image") / 1000000)) MB"
