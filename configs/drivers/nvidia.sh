#!/bin/bash
# Makes the driver extension nvidia out of packages that lie in a folder: NVIDIA's driver for one kernel and CUDA's libraries.
#
#   configs/drivers/nvidia.sh PACKAGES KERNEL CACHE KEYS OUT      e.g. ~/nvidia 6.12.57+deb13-amd64 .cache/image .cache/image/keys dist/drivers
#
# PACKAGES holds .deb files of one version, which NVIDIA and Debian's section non-free have: those with libcuda.so.1 and libnvidia-ml.so.1, the firmware
# for GSP, CUDA's runtime, cuBLAS, cuRAND and cuDNN, nvidia-modprobe, and the modules built for KERNEL (DKMS builds them on a machine with its
# headers: dkms mkbmdeb). KERNEL must be the one of the slot. It was run over stand-ins only: docs/gpu.md.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
[ $# -eq 5 ] || { echo "nvidia.sh: want five words: nvidia.sh PACKAGES KERNEL CACHE KEYS OUT" >&2; exit 1; }
packages=$1 kernel=$2 cache=$(realpath "$3") keys=$4 out=$5
command -v patchelf >/dev/null || "$here/../debian/install.sh" "the libraries of drivers are made to find each other with" patchelf
# shellcheck source=configs/drivers/libraries.sh
. "$here/libraries.sh"
fail() {
	echo "nvidia.sh: $*" >&2
	exit 1
}
compgen -G "$packages/*.deb" >/dev/null || fail "there are no packages in $packages"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
mkdir -p "$work/from" "$tree"/{lib,bin,modules,firmware}
for package in "$packages"/*.deb; do dpkg-deb -x "$package" "$work/from"; done
tar -tf "$cache/base.tar" >"$work/slot"
grep -q "/lib/modules/$kernel/" "$work/slot" || fail "the slot has another kernel than $kernel"
level=debian-$(tar -xOf "$cache/base.tar" ./etc/debian_version | cut -d. -f1)

# one PATTERN TO: the newest file of that name
one() {
	local found
	found=$(find "$work/from" -name "$1" \( -type f -o -type l \) | sort -V | tail -n 1)
	[ -n "$found" ] || fail "no package has $1"
	cp -L "$found" "$2"
}
for library in libcuda.so.1 libnvidia-ml.so.1 libcudart.so.13 libcublas.so.13 libcublasLt.so.13 libcurand.so.10; do one $library "$tree/lib/$library"; done
# cuDNN and the compiler of the driver's kernels come in several files, opened by their names
find "$work/from" \( -name 'libcudnn*.so.9' -o -name 'libnvidia-ptxjitcompiler.so.1' -o -name 'libnvidia-nvvm.so.4' \) -exec cp -L {} "$tree/lib/" \;
one nvidia-modprobe "$tree/bin/nvidia-modprobe"
chmod 755 "$tree/bin/nvidia-modprobe"
for module in nvidia nvidia-uvm; do
	found=$(find "$work/from" -path "*/$kernel/*" -name "$module.ko*" | head -n 1)
	[ -n "$found" ] || fail "no package has the module $module for the kernel $kernel"
	case $found in
	*.xz) xz -dc "$found" >"$tree/modules/$module.ko" ;;
	*) cp "$found" "$tree/modules/$module.ko" ;;
	esac
done
version=$(for package in "$packages"/*.deb; do
	if dpkg-deb --contents "$package" | grep -q '/libcuda\.so\.1'; then dpkg-deb --field "$package" Version; fi
done | head -n 1)
if [ -d "$work/from/usr/lib/firmware/nvidia" ]; then cp -r "$work/from/usr/lib/firmware/nvidia" "$tree/firmware/"; fi
if [ -d "$work/from/lib/firmware/nvidia" ]; then cp -r "$work/from/lib/firmware/nvidia" "$tree/firmware/"; fi
closure "$work/from" "$tree/lib" "$work/slot"
chmod -R u=rwX,go=rX "$tree"

manifest=$(tr -d '\n' <<JSON
{"name":"nvidia","version":"$version","kind":"cuda","architecture":"amd64","fits":{"level":"$level","kernel":"$kernel"},"devices":[
{"vendor":"10de","modules":["modules/nvidia.ko","modules/nvidia-uvm.ko"]}],"firmware":"firmware",
"driver":"lib/libcuda.so.1","telemetry":"lib/libnvidia-ml.so.1","libraries":["lib"],"setup":["bin/nvidia-modprobe","-c=0","-u"]}
JSON
)
"$here/pack.sh" "$tree" "$manifest" "$keys/edgewise.key" "$out/edgewise-driver-nvidia_${version}_amd64.driver"
