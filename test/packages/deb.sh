#!/bin/bash
# Installs, serves, upgrades and purges the Debian package in a clean Debian 12: test/packages/deb.sh OLD.deb NEW.deb FOLDER
#
# FOLDER is for the chroot, which is made by mmdebstrap the first time and copied for each run; root is needed. There is no
# systemd in a chroot: the service is started by hand, as its user and with its command; the image runs it under systemd.
# PORT and the one behind it are used, 8000 where it is not said.
set -euo pipefail

old=$(realpath "$1") new=$(realpath "$2") work=$(realpath -m "$3")
base=$work/bookworm.tar root=$work/root
port=${PORT:-8000}
step() { echo "== $*"; }
fail() { echo "deb.sh: $*" >&2; exit 1; }

mkdir -p "$work/none/partial" "$work/cache/archives/partial"
[ -f "$base" ] || mmdebstrap --quiet --variant=minbase --include=ca-certificates,curl,systemd bookworm "$base"
rm -rf "$root"
mkdir "$root"
tar -C "$root" -xf "$base"
cp "$old" "$new" "$root/tmp/"
in_root() { DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"; }

pid=
serve() {
	# /proc, which children confine themselves with, and /dev are those of this machine for as long as the service runs
	unshare --mount --pid --fork --kill-child --mount-proc="$root/proc" chroot "$root" \
		setpriv --reuid edgewise --regid edgewise --init-groups \
		env HOME=/var/lib/edgewise EDGEWISE_DATA_DIR=/var/lib/edgewise EDGEWISE_HTTP_ADDRESS=":$port" EDGEWISE_GRPC_ADDRESS=":$((port + 1))" \
		/usr/lib/edgewise/edgewise serve --config /etc/edgewise/appliance.yaml >"$work/serve.log" 2>&1 &
	pid=$!
	for _ in $(seq 240); do
		if in_root curl -sf "http://127.0.0.1:$port/v2/health/ready" >/dev/null; then return; fi
		sleep 0.5
	done
	cat "$work/serve.log"
	fail "the box is not ready after 120 s"
}
stop() {
	[ -z "$pid" ] && return
	# unshare takes no signals: its child is the service
	pkill -TERM -P "$pid" || true
	wait "$pid" || fail "the service did not stop in order"
	pid=
}
helper=
trap 'for process in $pid $helper; do pkill -KILL -P "$process" || true; done' EXIT
as_user() { in_root runuser -u edgewise -- env HOME=/var/lib/edgewise "$@"; }
edgewise() { as_user edgewise --server "http://127.0.0.1:$port" "$@"; }
# models prints the models that the box lists
models() { edgewise model list; }

step "what it depends on is in each system that it is for"
# the versions that a system came out with: later ones are newer. JetPack 6 is Ubuntu 22.04, JetPack 7 is Ubuntu 24.04.
while read -r system libc stdcxx; do
	status=$work/status-$system
	for package in "libc6 $libc" "libstdc++6 $stdcxx" "libgcc-s1 $stdcxx" "passwd 1:4.8.1" "init-system-helpers 1.60" "ca-certificates 20210119"; do
		printf 'Package: %s\nStatus: install ok installed\nPriority: optional\nSection: libs\nMaintainer: nobody\nArchitecture: amd64\nMulti-Arch: same\nVersion: %s\nDescription: stands in\n\n' ${package% *} "${package#* }"
	done >"$status"
	apt-get -o Dir::State::status="$status" -o Dir::State::lists="$work/none" -o Dir::Cache="$work/cache" -o Debug::NoLocking=1 --simulate install "$old" >"$work/simulate.log" 2>&1 &&
		echo "$system: libc6 $libc, libstdc++6 $stdcxx" || { tail -n 5 "$work/simulate.log"; fail "$system lacks what the package depends on"; }
done <<'SYSTEMS'
debian-12 2.36-9 12.2.0-14
debian-13 2.41-12 14.2.0-19
ubuntu-22.04 2.35-0ubuntu3 12-20220319-1ubuntu1
ubuntu-24.04 2.39-0ubuntu8 14-20240412-0ubuntu1
SYSTEMS

step "install $(basename "$old")"
in_root apt-get update -qq
in_root apt-get install -y -qq "/tmp/$(basename "$old")" >"$work/install.log" 2>&1 || { cat "$work/install.log"; fail "the package does not install"; }
in_root getent passwd edgewise
[ "$(in_root stat -c '%U:%G %a' /var/lib/edgewise)" = "edgewise:edgewise 750" ] || fail "/var/lib/edgewise is not the user's"
[ -L "$root/etc/systemd/system/multi-user.target.wants/edgewise.service" ] || fail "the service is not enabled"
in_root systemd-analyze verify edgewise.service edgewise-helper.service edgewise-helper.socket
in_root ldd /usr/lib/edgewise/lib/libonnxruntime.so.1 | grep -q "not found" && fail "a library of ONNX Runtime is missing"

step "backends"
mount -t proc proc "$root/proc"
backends=$(as_user edgewise backend list)
umount "$root/proc"
for backend in llama python pytorch; do grep -q "^$backend: platform" <<<"$backends" || { echo "$backends"; fail "the backend $backend is not there"; }; done
for file in "$root"/usr/lib/edgewise/lib/backends/llama/{edgewise-llama,*.so}; do
	in_root ldd "${file#"$root"}" | grep -q "not found" && fail "a library of $file is missing"
done

step "serve"
mkdir -p "$root/tmp/models"
cp -r dist/demo/models/vad dist/demo/pipelines/speech "$root/tmp/models/"
chmod -R a+rX "$root/tmp/models"
serve
edgewise model import /tmp/models
cp configs/demo/samples/speech.wav "$root/tmp/"
chmod a+r "$root/tmp/speech.wav"
edgewise demo vad /tmp/speech.wav | tee "$work/answer-old"
grep -q "1.*s" "$work/answer-old" || fail "the model does not answer"
stop

step "upgrade to $(basename "$new"), with a changed configuration"
echo "# a line of the administrator's" >>"$root/etc/edgewise/appliance.yaml"
in_root apt-get install -y -qq "/tmp/$(basename "$new")" >"$work/upgrade.log" 2>&1 || { cat "$work/upgrade.log"; fail "the package does not upgrade"; }
grep -q "administrator's" "$root/etc/edgewise/appliance.yaml" || fail "the upgrade has changed the administrator's configuration"
serve
models
edgewise demo vad /tmp/speech.wav >"$work/answer-new"
cmp "$work/answer-old" "$work/answer-new" || fail "the model answers otherwise after the upgrade"
stop

# refused TEXT COMMAND...: the command fails and says so
refused() {
	local text=$1 said
	shift
	! said=$("$@" 2>&1) && grep -q "$text" <<<"$said" || { echo "$said"; return 1; }
}
step "update through the box: only with a good signature, and back"
version() { in_root dpkg-query --show --showformat='${Version}' edgewise; }
unshare --mount --pid --fork --kill-child --mount-proc="$root/proc" chroot "$root" /usr/lib/edgewise/edgewise helper --listen /run/edgewise-helper.sock >"$work/helper.log" 2>&1 &
helper=$!
for _ in $(seq 100); do if [ -S "$root/run/edgewise-helper.sock" ]; then break; fi; sleep 0.1; done
in_root chown edgewise /run/edgewise-helper.sock
chmod 600 "$root/run/edgewise-helper.sock"
serve
running=$(version)
other=$(basename "$old")
edgewise update status | grep "$running (package)" || fail "the box does not say how it is updated"
refused "needs its signature" edgewise update install "/tmp/$other" || fail "a package without a signature is taken"
head -c -1 "$root/tmp/$other" >"$root/tmp/cut.deb"
cp "$old.minisig" "$root/tmp/cut.deb.minisig"
refused "changed or cut off" edgewise update install /tmp/cut.deb || fail "a package that was cut off is taken"
cp "$old.minisig" "$root/tmp/$other.minisig"
refused "is older than $running" edgewise update install "/tmp/$other" || fail "an older package is taken without a confirmation"
edgewise update install --allow-downgrade "/tmp/$other" || fail "a confirmed package is not taken"
[ "$(version)" = "$running" ] || fail "the package is installed before anybody asked for a restart"
edgewise update restart || fail "the update is not installed"
for _ in $(seq 240); do if [ "$(version)" != "$running" ] && edgewise update status | grep -q "previous   $running"; then break; fi; sleep 0.5; done
[ "$(version)" != "$running" ] || { cat "$work/helper.log"; fail "the update is not installed"; }
edgewise update rollback || fail "the box does not go back"
for _ in $(seq 240); do if [ "$(version)" = "$running" ] && edgewise update status | grep -q "rollback to $running: went well"; then break; fi; sleep 0.5; done
[ "$(version)" = "$running" ] || { cat "$work/helper.log"; fail "the box is not back"; }
grep -q "administrator's" "$root/etc/edgewise/appliance.yaml" || fail "an update has changed the administrator's configuration"
stop
pkill -TERM -P "$helper" || true
wait "$helper" || true
rm -f "$root/run/edgewise-helper.sock"

step "remove: configuration and data stay"
in_root apt-get remove -y -qq edgewise >/dev/null 2>&1
[ -f "$root/etc/edgewise/appliance.yaml" ] && [ -d "$root/var/lib/edgewise/models" ] || fail "remove has removed more than the program"
[ ! -e "$root/usr/lib/edgewise/edgewise" ] || fail "remove has left the program"

step "purge: data stay unless told"
in_root apt-get purge -y -qq edgewise >"$work/purge.log" 2>&1
grep "kept in /var/lib/edgewise" "$work/purge.log" || fail "the purge does not say where the data are"
[ ! -e "$root/var/lib/edgewise-update" ] || fail "the purge has left kept packages"
[ ! -e "$root/etc/edgewise" ] || fail "the purge has left the configuration"
[ -d "$root/var/lib/edgewise/models" ] || fail "the purge has removed the data without being told"

step "install again: the data are there"
in_root apt-get install -y -qq "/tmp/$(basename "$new")" >/dev/null 2>&1
serve
models | grep -q vad || fail "the kept model is not served"
stop

step "purge with EDGEWISE_PURGE_DATA=yes"
EDGEWISE_PURGE_DATA=yes in_root apt-get purge -y -qq edgewise >/dev/null 2>&1
[ ! -e "$root/var/lib/edgewise" ] || fail "the purge has left the data"
in_root getent passwd edgewise >/dev/null && fail "the purge has left the user"
rm -rf "$root"
echo "ok"
