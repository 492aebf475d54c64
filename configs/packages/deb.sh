#!/bin/sh
# Makes the Debian package of a program that has been built.
#
#   configs/packages/deb.sh ARCH PROGRAM LIBRARIES VERSION OUT      e.g. amd64 bin/edgewise bin/lib 0.1.0 dist/packages
#
# ARCH is amd64 or arm64. LIBRARIES is the folder that configs/runtime/fetch.sh has filled, with edgewise-fetch in it and the backend of
# GGUF files in backends/llama, as "make llama" leaves it there. The package is OUT/edgewise_VERSION_ARCH.deb; its dependencies are what
# these files ask of the C and C++ libraries. The same inputs
# and the same SOURCE_DATE_EPOCH (by default the time of the last commit) make the same bytes. DEB_LEVEL=0 is quicker and larger.
#
# KEYS is a folder with the public keys of releases (*.pub, of minisign): what one of them has signed can be installed by the
# page. Without it there is none in the package. SIGN is the secret key that signs this package, into OUT/...deb.minisig.
set -eu
umask 022

here=$(cd "$(dirname "$0")" && pwd)

fail() {
	echo "deb.sh: $*" >&2
	exit 1
}

[ $# -eq 5 ] || fail "want five words: deb.sh ARCH PROGRAM LIBRARIES VERSION OUT"
arch=$1 program=$2 libraries=$3 version=$4 out=$5
case $arch in amd64 | arm64) ;; *) fail "there is no package for $arch: want amd64 or arm64" ;; esac
for tool in dpkg-deb objdump make; do command -v $tool >/dev/null || fail "$tool is missing (on Debian: apt-get install dpkg-dev binutils make)"; done
: "${SOURCE_DATE_EPOCH:=$(git -C "$here" log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH

# newest PREFIX: the highest version of a library's symbols that the files ask for, as in GLIBC_2.34
newest() {
	for file in "$program" "$libraries/libonnxruntime.so.1" "$llama/edgewise-llama" "$llama"/*.so; do
		readelf --version-info --wide "$file"
	done | grep -oE "\<$1_[0-9.]+" | sed "s/$1_//" | sort -Vu | tail -n 1
}

# stdcxx: the release of libstdc++6 that brought the newest symbols asked for
stdcxx() {
	case $(newest GLIBCXX) in
	3.4 | 3.4.? | 3.4.1? | 3.4.2[0-5]) echo 8 ;;
	3.4.26) echo 9 ;;
	3.4.27 | 3.4.28) echo 10 ;;
	3.4.29) echo 11 ;;
	3.4.30) echo 12 ;;
	*) fail "libonnxruntime.so.1 asks for GLIBCXX_$(newest GLIBCXX), which no release of libstdc++6 is known for here" ;;
	esac
}

llama=$libraries/backends/llama
tree=$out/.deb-$arch
rm -rf "$tree"
install -D -m 755 "$program" "$tree/usr/lib/edgewise/edgewise"
install -D -m 644 "$libraries/libonnxruntime.so.1" "$tree/usr/lib/edgewise/lib/libonnxruntime.so.1"
install -D -m 755 "$libraries/edgewise-fetch" "$tree/usr/lib/edgewise/lib/edgewise-fetch"
# the backends that are programs for an interpreter of the machine, as the Makefile lays them out beside the program
make -s -C "$here/../.." BIN="$(cd "$tree/usr/lib/edgewise" && pwd)" triton-python frameworks
cp -r "$llama" "$tree/usr/lib/edgewise/lib/backends/llama"
mkdir -p "$tree/usr/bin"
ln -s ../lib/edgewise/edgewise "$tree/usr/bin/edgewise"
echo "package $version" >"$tree/usr/lib/edgewise/packaging"
install -D -m 644 "$here/../systemd/edgewise.service" "$tree/usr/lib/systemd/system/edgewise.service"
for unit in socket service; do install -m 644 "$here/debian/edgewise-helper.$unit" "$tree/usr/lib/systemd/system/"; done
for key in ${KEYS:+"$KEYS"/*.pub}; do install -D -m 644 "$key" "$tree/usr/share/edgewise/keys/$(basename "$key")"; done
install -D -m 644 "$here/debian/sysusers.conf" "$tree/usr/lib/sysusers.d/edgewise.conf"
install -D -m 644 "$here/debian/udev.rules" "$tree/usr/lib/udev/rules.d/70-edgewise.rules"
install -D -m 644 "$here/debian/appliance.yaml" "$tree/etc/edgewise/appliance.yaml"
install -D -m 644 "$here/../../LICENSE" "$tree/usr/share/doc/edgewise/copyright"
install -D -m 644 "$libraries/LICENSE.onnxruntime" "$tree/usr/share/doc/edgewise/LICENSE.onnxruntime"
install -D -m 644 "$llama/LICENSE.llama.cpp" "$tree/usr/share/doc/edgewise/LICENSE.llama.cpp"
install -D -m 644 "$here/../appliance.yaml" "$tree/usr/share/doc/edgewise/appliance.yaml"

mkdir "$tree/DEBIAN"
for script in postinst prerm postrm; do install -m 755 "$here/debian/$script" "$tree/DEBIAN/$script"; done
echo /etc/edgewise/appliance.yaml >"$tree/DEBIAN/conffiles"
(cd "$tree" && find etc usr -type f -exec md5sum {} + | LC_ALL=C sort -k 2 >DEBIAN/md5sums)
sed -e "s/@VERSION@/$version/" -e "s/@ARCH@/$arch/" -e "s/@SIZE@/$(du -sk --apparent-size "$tree" | cut -f 1)/" \
	-e "s/@DEPENDS@/libc6 (>= $(newest GLIBC)), libstdc++6 (>= $(stdcxx)), libgcc-s1 (>= 3.4), passwd/" \
	"$here/debian/control.in" >"$tree/DEBIAN/control"
find "$tree" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

package=$out/edgewise_${version}_$arch.deb
dpkg-deb --root-owner-group -Zxz "-z${DEB_LEVEL:-6}" --build "$tree" "$package" >/dev/null
rm -rf "$tree"
if [ -n "${SIGN:-}" ]; then
	rm -f "$package.minisig"
	minisign -S -s "$SIGN" -m "$package" -t "edgewise $version $arch" </dev/null >/dev/null
fi
echo "$package: $(dpkg-deb --field "$package" Depends), $(($(wc -c <"$package") / 1000000)) MB"
