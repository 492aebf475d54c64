#!/bin/bash
# Makes the part of a slot that is Debian's: base.sh CACHE. It is made anew when the list of packages changes; remove
# CACHE/base.tar for newer packages. CACHE gets base.tar and, beside it, shim and GRUB as Debian has signed them. ARCH is
# amd64 or arm64; the other one than this machine's needs qemu-user-static, arch-test and binfmt_misc.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=$1
arch=${ARCH:-amd64}
suite=trixie
key=$(echo "$arch" | cat - "$here/packages" "$here/base.sh" "$here"/root/etc/initramfs-tools/modules "$here"/root/etc/initramfs-tools/conf.d/edgewise | sha256sum | cut -d' ' -f1)

if [ -f "$cache/base.tar" ] && [ "$(cat "$cache/base.key" 2>/dev/null)" = "$key" ]; then exit 0; fi
mkdir -p "$cache"
rm -rf "$cache/efi"
# one time for all builds: the same packages make the same bytes, whatever is built of them
export SOURCE_DATE_EPOCH=1767225600
if [ "$arch" != "$(dpkg --print-architecture)" ]; then
	arch-test "$arch" >/dev/null || { echo "base.sh: programs of $arch do not run here: mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc; update-binfmts --enable" >&2; exit 1; }
fi
# shellcheck disable=SC2016 # $1 is mmdebstrap's
mmdebstrap --variant=minbase --architectures="$arch" --include="$(sed "/^#/d; s/@ARCH@/$arch/" "$here/packages" | paste -sd,)" \
	--aptopt='Apt::Install-Recommends "0"' \
	--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
	--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
	--essential-hook="mkdir -p \"\$1/etc/initramfs-tools\" && cp -r '$here/root/etc/initramfs-tools/.' \"\$1/etc/initramfs-tools/\"" \
	--customize-hook='mkdir -p "$1/efi-packages" && chroot "$1" sh -c "cd /efi-packages && apt-get download shim-signed grub-efi-'"$arch"'-signed"' \
	--customize-hook="copy-out /efi-packages '$cache'" \
	--customize-hook='rm -r "$1/efi-packages"' \
	--format=tar "$suite" "$cache/base.tar.new" 2>"$cache/base.log" || { tail -n 20 "$cache/base.log"; exit 1; }
mv "$cache/efi-packages" "$cache/efi"
mv "$cache/base.tar.new" "$cache/base.tar"
echo "$key" >"$cache/base.key"
