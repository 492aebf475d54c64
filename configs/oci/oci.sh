#!/bin/bash
# Makes the container image, as an OCI image layout, without a container engine and without root.
#
#   configs/oci/oci.sh ARCH PROGRAM LIBRARIES VERSION CACHE OUT      e.g. amd64 dist/linux-amd64/edgewise dist/linux-amd64/lib 0.1.0 .cache/oci dist/oci
#
# The root file system is the program, ONNX Runtime, the C and C++ libraries that they ask for and the certificates of public
# authorities, each out of Debian's packages: no shell, no package tools. Debian's packages are fetched once into CACHE; remove it for newer
# ones. The same inputs and the same SOURCE_DATE_EPOCH make the same bytes.
set -euo pipefail
umask 022

here=$(cd "$(dirname "$0")" && pwd)
arch=$1 program=$2 libraries=$3 version=$4 cache=$5/$1 out=$6
: "${SOURCE_DATE_EPOCH:?}"
native=(libc6 libgcc-s1 libstdc++6)
packages=("${native[@]}" ca-certificates tzdata netbase)
case $arch in
amd64) triplet=x86_64-linux-gnu ;;
arm64) triplet=aarch64-linux-gnu ;;
*) echo "oci.sh: there is no image for $arch: want amd64 or arm64" >&2; exit 1 ;;
esac

mkdir -p "$cache"
missing=()
for package in "${packages[@]}"; do
	want=$package
	[[ " ${native[*]} " != *" $package "* ]] || want=$package:$arch
	compgen -G "$cache/${package}_*.deb" >/dev/null || missing+=("$want")
done
if [ ${#missing[@]} -gt 0 ]; then
	(cd "$cache" && apt-get download "${missing[@]}" >download.log 2>&1) ||
		{ tail -n 3 "$cache/download.log" >&2; echo "oci.sh: apt-get cannot fetch ${missing[*]} (for another architecture: dpkg --add-architecture $arch; apt-get update)" >&2; exit 1; }
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for package in "$cache"/*.deb; do dpkg-deb -x "$package" "$work/debian"; done
root=$work/root
mkdir -p "$root"/{dev,etc/ssl/certs,mnt/models,proc,sys,tmp,usr/bin,usr/lib/edgewise/lib,usr/share/doc,var/lib/edgewise}
chmod 1777 "$root/tmp"

from=$work/debian
for pattern in 'ld-linux-*.so.*' 'libc.so.6' 'libm.so.6' 'libmvec.so.1' 'libdl.so.2' 'libpthread.so.0' 'librt.so.1' 'libresolv.so.2' 'libnss_dns.so.2' 'libnss_files.so.2' 'libgcc_s.so.1' 'libstdc++.so.6*'; do
	for file in "$from"/lib/$triplet/$pattern "$from"/usr/lib/$triplet/$pattern; do
		[ ! -e "$file" ] && [ ! -L "$file" ] || { mkdir -p "$root/usr/lib/$triplet" && cp -a "$file" "$root/usr/lib/$triplet/"; }
	done
done
ln -s usr/lib "$root/lib"
# the loader is where programs say that it is
case $arch in
amd64) mkdir "$root/usr/lib64" && ln -s usr/lib64 "$root/lib64" && ln -s "../lib/$triplet/ld-linux-x86-64.so.2" "$root/usr/lib64/ld-linux-x86-64.so.2" ;;
arm64) ln -s "$triplet/ld-linux-aarch64.so.1" "$root/usr/lib/ld-linux-aarch64.so.1" ;;
esac
find "$from/usr/share/ca-certificates" -name '*.crt' | LC_ALL=C sort | xargs cat >"$root/etc/ssl/certs/ca-certificates.crt"
cp -a "$from/usr/share/zoneinfo" "$root/usr/share/zoneinfo"
rm -rf "$root/usr/share/zoneinfo/"{right,posix}
cp -a "$from/etc/protocols" "$from/etc/services" "$root/etc/"
for package in "${packages[@]}"; do
	[ ! -f "$from/usr/share/doc/$package/copyright" ] || install -D -m 644 "$from/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/copyright"
done
for package in "$cache"/*.deb; do dpkg-deb --show --showformat='${Package} ${Version}\n' "$package"; done | LC_ALL=C sort >"$root/usr/share/doc/packages"

install -m 755 "$program" "$root/usr/lib/edgewise/edgewise"
install -m 644 "$libraries/libonnxruntime.so.1" "$root/usr/lib/edgewise/lib/libonnxruntime.so.1"
install -m 755 "$libraries/edgewise-fetch" "$root/usr/lib/edgewise/lib/edgewise-fetch"
mkdir "$root/usr/lib/edgewise/lib/backends"
cp -r "$libraries/backends/llama" "$root/usr/lib/edgewise/lib/backends/llama"
install -D -m 644 "$libraries/backends/llama/LICENSE.llama.cpp" "$root/usr/share/doc/edgewise/LICENSE.llama.cpp"
install -D -m 644 "$libraries/LICENSE.onnxruntime" "$root/usr/share/doc/edgewise/LICENSE.onnxruntime"
install -D -m 644 "$here/../../LICENSE" "$root/usr/share/doc/edgewise/copyright"
install -D -m 644 "$here/appliance.yaml" "$root/etc/edgewise/appliance.yaml"
echo "container $version" >"$root/usr/lib/edgewise/packaging"
ln -s ../lib/edgewise/edgewise "$root/usr/bin/edgewise"
printf 'root:x:0:0:root:/root:/sbin/nologin\nedgewise:x:65532:65532:Edgewise:/var/lib/edgewise:/sbin/nologin\n' >"$root/etc/passwd"
printf 'root:x:0:\nedgewise:x:65532:\n' >"$root/etc/group"
printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$root/etc/nsswitch.conf"

cd "$here/../.."
${GO:-go} run ./configs/oci -root "$root" -arch "$arch" -version "$version" -time "$SOURCE_DATE_EPOCH" -out "$out"
