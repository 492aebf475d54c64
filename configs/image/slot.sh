#!/bin/bash
# Makes a slot: the read-only system with the box and the demo in it.
#
#   configs/image/slot.sh VERSION DEB CA CACHE OUT DRIVERS     e.g. 0.1.0 dist/packages/edgewise_0.1.0_amd64.deb ca.pem .cache/image dist/image dist/drivers
#
# DRIVERS is a folder of driver extensions, which are not in the slot: it has a list of them, by which the page says what a device needs.
# CA is the certificate of the authority whose bundles the slot will take. The slot is OUT/slot-VERSION.squashfs; the same
# inputs make the same bytes. ARCH is amd64 or arm64, and CACHE and OUT are one architecture's. gzip is read several times faster than xz at each start; COMPRESSION=xz is smaller to download.
set -euo pipefail
umask 022

here=$(cd "$(dirname "$0")" && pwd)
version=$1 deb=$(realpath "$2") ca=$3 cache=$4 out=$5 drivers=$6
: "${SOURCE_DATE_EPOCH:?}"
export SOURCE_DATE_EPOCH
root=$out/root

"$here/base.sh" "$cache"
mkdir -p "$out"
rm -rf "$root"
mkdir "$root"
tar -C "$root" --numeric-owner -xf "$cache/base.tar"

# The data of a slot belong to the user's number: it is the same in every slot.
chroot "$root" groupadd --system --gid 900 edgewise
chroot "$root" useradd --system --uid 900 --gid edgewise --home-dir /var/lib/edgewise --no-create-home --shell /usr/sbin/nologin edgewise
cp "$deb" "$root/edgewise.deb"
chroot "$root" dpkg --install /edgewise.deb >/dev/null
rm "$root/edgewise.deb"
cp -r --no-preserve=ownership "$here/root/." "$root/"
if [ "${ARCH:-amd64}" = arm64 ]; then
	sed -i 's/^compatible=.*/compatible=edgewise-arm64/' "$root/etc/rauc/system.conf"
	sed -i 's/^Type=root-x86-64/Type=root-arm64/' "$root"/usr/lib/repart.d/*.conf
fi
install -m 644 "$ca" "$root/etc/rauc/ca.pem"
mkdir -p "$root/usr/share/edgewise/demo"
cp -r --no-preserve=ownership "$here"/../../dist/demo/{models,pipelines} "$here"/../demo/samples/speech.wav "$here"/../demo/LICENSES.md "$root/usr/share/edgewise/demo/"
chmod -R u=rwX,go=rX "$root/usr/share/edgewise"

echo edgewise >"$root/etc/hostname"
printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts"
ln -sf /run/systemd/resolve/stub-resolv.conf "$root/etc/resolv.conf"
: >"$root/etc/machine-id"
rm -f "$root/var/lib/dbus/machine-id"
rm -f "$root/usr/lib/os-release"
printf 'PRETTY_NAME="Edgewise %s"\nNAME=Edgewise\nID=edgewise\nID_LIKE=debian\nVERSION_ID=%s\nIMAGE_ID=edgewise\nIMAGE_VERSION=%s\nSYSEXT_LEVEL=debian-%s\n' \
	"$version" "$version" "$version" "$(cut -d. -f1 "$root/etc/debian_version")" >"$root/usr/lib/os-release"
ln -sf ../usr/lib/os-release "$root/etc/os-release"
touch "$root/usr/lib/clock-epoch"

for unit in edgewise edgewise-factory-reset edgewise-reset-done edgewise-machine-id edgewise-setup edgewise-commit edgewise-try edgewise-demo edgewise-drivers \
	edgewise-console systemd-networkd systemd-resolved systemd-timesyncd avahi-daemon nftables; do
	systemctl --root="$root" --quiet enable $unit.service
done
if [ -f "$root/usr/lib/systemd/system/edgewise-helper.socket" ]; then systemctl --root="$root" --quiet enable edgewise-helper.socket; fi
systemctl --root="$root" --quiet mask systemd-firstboot.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
	fstrim.timer e2scrub_all.timer e2scrub_reap.service getty@tty1.service serial-getty@ttyS0.service systemd-networkd-wait-online.service
systemctl --root="$root" --quiet set-default multi-user.target

# what the second line of a driver extension says of it
for file in "$drivers"/*_"${ARCH:-amd64}".driver; do
	if [ -f "$file" ]; then printf '{"file":"%s","manifest":%s}\n' "$(basename "$file")" "$(sed -n '2{p;q}' "$file")"; fi
done | paste -sd, | sed 's/^/[/; s/$/]/' >"$root/usr/share/edgewise/drivers.json"

# a box plays no sound and is on no InfiniBand: their modules are 11 MB of the download
rm -rf "$root"/usr/lib/modules/*/kernel/{sound,drivers/infiniband}
chroot "$root" depmod "$(ls "$root/usr/lib/modules")"

# GRUB finds the kernel by these names; nothing of Debian's package tools runs in a slot.
(cd "$root/boot" && ln -sf vmlinuz-* vmlinuz && ln -sf initrd.img-* initrd.img && rm -f System.map-* config-*)
mkdir -p "$root"/{data,efi} "$root/usr/share/edgewise/packages"
cp "$root/var/lib/dpkg/status" "$root/usr/share/edgewise/packages/status"
cp -r "$root/var/lib/dpkg/info" "$out/dpkg-info" 2>/dev/null || true
(cd "$here/../.." && ${GO:-go} run ./configs/image/sbom -root "$root" -version "$version" -overlay configs/image/root \
	-onnxruntime "$(sed -n 's/^spec=onnxruntime-node@//p' configs/runtime/fetch.sh)" >"$out/sbom-$version.json")
install -m 644 "$out/sbom-$version.json" "$root/usr/share/edgewise/sbom.json"
# /var is the data partition's: of what the slot has there only the folders are seen, by services that start before it is mounted
rm -rf "$root"/var/{backups,cache,lib,log}/* "$root"/tmp/* "$root"/run/* "$root"/etc/{passwd,group,shadow,gshadow,subuid,subgid}- "$out/dpkg-info"
# nobody logs in to a box: nothing needs to become root
find "$root" -xdev -type f -perm /6000 -exec chmod a-s {} +
find "$root" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

slot=$out/slot-$version.squashfs
case ${COMPRESSION:-gzip} in
xz) how=(-comp xz -b 256K) ;;
gzip) how=(-comp gzip -Xcompression-level 6) ;;
*) echo "slot.sh: COMPRESSION: want xz or gzip: GRUB reads no other" >&2; exit 1 ;;
esac
rm -f "$slot"
# kernel and initial file system are compressed already: GRUB, which is slow at that, need not unpack them twice
mksquashfs "$root" "$slot" "${how[@]}" -action 'uncompressed@(name(vmlinuz-*)||name(initrd.img-*))' -noappend -quiet -no-progress -no-exports
rm -rf "$root"
size=$(wc -c <"$slot")
[ "$size" -le $((500 << 20)) ] || { echo "slot.sh: the slot has $size bytes: it must fit its partition of 500 MiB" >&2; exit 1; }
echo "$slot: $((size / 1000000)) MB, sha256 $(sha256sum "$slot" | cut -d' ' -f1)"
