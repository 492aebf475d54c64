#!/bin/sh
# Fetches Mesa's software Vulkan driver, lavapipe, for the tests: out of Debian's backports, at a fixed version, into a folder. Nothing
# is installed. Debian 12's own is too old for ONNX Runtime's provider.
#
#   configs/vulkan/fetch.sh TARGET   e.g. .cache/vulkan
#
# The package must have the SHA-256 below. When TARGET holds the driver already, nothing is fetched or written. LLVM 15 and the other
# libraries that the driver needs are the system's.
set -eu

version='25.0.7-2~bpo12+1'
package=3899f1800424c60a05df5d6913076a526ca8fdbabec43672cd397563d1ca3263
library=libvulkan_lvp.so

fail() {
	echo "fetch.sh: $*" >&2
	exit 1
}

[ $# -eq 1 ] || fail "want a folder: fetch.sh TARGET"
[ "$(uname -m)" = x86_64 ] || fail "the driver is fetched for x86-64 only"
mkdir -p "$1"
target=$(cd "$1" && pwd)
if [ -f "$target/lvp.json" ] && [ -f "$target/$library" ]; then
	exit 0
fi
command -v apt-get >/dev/null && command -v dpkg >/dev/null || fail "the driver comes from Debian by apt-get: put $library and its manifest lvp.json into $target"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
key=/usr/share/keyrings/debian-archive-keyring.gpg
[ -f "$key" ] || fail "$key is missing (on Debian: sudo apt-get install debian-archive-keyring)"
# where the system itself gets Debian 12's packages from
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Codename: bookworm' | head -n 1)
[ -n "$mirror" ] || fail "apt-get has no source of Debian 12 (bookworm): its backports are looked for beside it"
echo "deb [signed-by=$key] $mirror bookworm-backports main" >"$work/sources.list"
# a list of packages of its own: the system's is not touched
apt() {
	apt-get -qq -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$work/lists" \
		-o Dir::Cache="$work/cache" -o APT::Sandbox::User=root "$@"
}
echo "fetching lavapipe of Mesa $version (11 MB)"
apt update
cd "$work"
apt download "mesa-vulkan-drivers=$version" || fail "Debian's backports have no mesa-vulkan-drivers $version any more: name a newer one here"
echo "$package  $(echo mesa-vulkan-drivers_*.deb)" | sha256sum -c --status || fail "mesa-vulkan-drivers is not the package that is expected: want SHA-256 $package"
dpkg -x mesa-vulkan-drivers_*.deb root
cp "root/usr/lib/x86_64-linux-gnu/$library" "$target/$library"
printf '{"file_format_version": "1.0.1", "ICD": {"library_path": "./%s", "api_version": "1.4.305"}}\n' "$library" >"$target/lvp.json"
