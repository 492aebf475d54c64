#!/bin/bash
# Makes the driver extension mesa out of Debian's packages: Mesa's Vulkan drivers for Intel and AMD, the one that computes on the
# processor, the Vulkan loader, and the firmware of i915, xe and amdgpu.
#
#   configs/drivers/mesa.sh CACHE KEYS OUT      e.g. .cache/image .cache/image/keys dist/drivers
#
# CACHE has the slot's base.tar, which configs/image/base.sh makes: the extension is of the same release of Debian, and what the slot has is
# not in it. It is made anew when Debian has other versions than the last one. ARCH is amd64: ONNX Runtime for arm64 runs nothing on Vulkan.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cache=$(realpath "$1") keys=$2 out=$3
arch=${ARCH:-amd64}
[ "$arch" = amd64 ] || { echo "mesa.sh: there is no extension for $arch: ONNX Runtime runs nothing on Vulkan there" >&2; exit 1; }
command -v patchelf >/dev/null || "$here/../debian/install.sh" "the libraries of drivers are made to find each other with" patchelf
# shellcheck source=configs/drivers/libraries.sh
. "$here/libraries.sh"
"$here/../image/base.sh" "$cache"
suite=$(sed -n 's/^suite=//p' "$here/../image/base.sh")
level=debian-$(tar -xOf "$cache/base.tar" ./etc/debian_version | cut -d. -f1)

work=$cache/mesa
mkdir -p "$work"
fetch_from "$work/apt" "$suite" "main non-free-firmware"
names=(mesa-vulkan-drivers libvulkan1 firmware-intel-graphics firmware-amd-graphics)
packages=$(apt_private -s -qq -o APT::Install-Recommends=0 install "${names[@]}" | sed -n 's/^Inst \([^ ]*\) (\([^ ]*\) .*/\1=\2/p' | sort)
version=$(sed -n 's/^mesa-vulkan-drivers=//p' <<<"$packages")
file=$out/edgewise-driver-mesa_${version}_$arch.driver
key=$(cat "$0" "$here/libraries.sh" "$here/pack.sh" "$keys/edgewise.pub" - <<<"$packages $level" | sha256sum | cut -d' ' -f1)
if [ -f "$file" ] && [ "$(cat "$work/key" 2>/dev/null)" = "$key" ]; then exit 0; fi

rm -rf "$work/packages" "$work/from" "$work/tree"
mkdir -p "$work/packages" "$work/from" "$work/tree"/{lib,share/vulkan/icd.d,share/licences,firmware}
tar -tf "$cache/base.tar" >"$work/slot"
# of the libraries below those only that the slot lacks are fetched
wanted=$(tar -xOf "$cache/base.tar" ./var/lib/dpkg/status | sed -n 's/^Package: //p' | sort -u |
	awk 'NR == FNR { has[$1]; next } { split($0, name, "="); if (!(name[1] in has)) print }' - <(echo "$packages"))
# shellcheck disable=SC2086 # one word a package
(cd "$work/packages" && apt_private -qq download $wanted)
for package in "$work/packages"/*.deb; do dpkg-deb -x "$package" "$work/from"; done

libraries=$work/from/usr/lib/x86_64-linux-gnu tree=$work/tree
cp -L "$libraries/libvulkan.so.1" "$tree/lib/"
for driver in intel:intel intel_hasvk:intel_hasvk radeon:radeon lvp:lvp; do
	library=libvulkan_${driver%:*}.so
	cp "$libraries/$library" "$tree/lib/"
	api=$(sed -n 's/.*"api_version": *"\([0-9.]*\)".*/\1/p' "$work/from/usr/share/vulkan/icd.d/${driver#*:}_icd.json")
	printf '{"file_format_version": "1.0.1", "ICD": {"library_path": "../../../lib/%s", "api_version": "%s"}}\n' "$library" "$api" \
		>"$tree/share/vulkan/icd.d/${driver#*:}_icd.json"
done
closure "$work/from" "$tree/lib" "$work/slot"
for folder in i915 xe amdgpu; do
	if [ -d "$work/from/usr/lib/firmware/$folder" ]; then cp -r "$work/from/usr/lib/firmware/$folder" "$tree/firmware/"; fi
done
for copyright in "$work"/from/usr/share/doc/*/copyright; do
	if [ -f "$copyright" ]; then cp -L "$copyright" "$tree/share/licences/$(basename "$(dirname "$copyright")")"; fi
done
echo "$packages" >"$tree/share/packages"
chmod -R u=rwX,go=rX "$tree"

icd=share/vulkan/icd.d
manifest=$(tr -d '\n' <<JSON
{"name":"mesa","version":"$version","kind":"vulkan","architecture":"$arch","fits":{"level":"$level"},"devices":[
{"vendor":"8086","modules":["i915","xe"],"manifests":["$icd/intel_icd.json","$icd/intel_hasvk_icd.json"]},
{"vendor":"1002","modules":["amdgpu"],"manifests":["$icd/radeon_icd.json"]},
{"manifests":["$icd/lvp_icd.json"]}],"firmware":"firmware","loader":"lib/libvulkan.so.1"}
JSON
)
rm -f "$out"/edgewise-driver-mesa_*_"$arch".driver
"$here/pack.sh" "$tree" "$manifest" "$keys/edgewise.key" "$file"
rm -rf "$work/packages" "$work/from" "$tree"
echo "$key" >"$work/key"
