#!/bin/bash
# Checks the container image and runs it as KServe does, without a container engine: test/packages/oci.sh LAYOUT FOLDER
#
# The image's root is read-only, its user is not root and has no capabilities, /mnt/models holds a repository that is read-only,
# and only /var/lib/edgewise and /tmp can be written to. It has a network of its own. Root is needed for the mounts.
set -euo pipefail

if [ "${3:-}" != inside ]; then
	cd "$(dirname "$0")/../.."
	rm -rf "$2/root"
	mkdir -p "$2/root" "$2/models"
	cp -r dist/demo/models/. dist/demo/pipelines/speech "$2/models/"
	${GO:-go} test -count=1 -v -run '^TestTheLayoutIsAsPromised$' ./configs/oci -args -layout "$(realpath "$1")" -layout-root "$(realpath "$2/root")"
	exec unshare --net --mount --pid --fork --kill-child "$0" "$1" "$2" inside
fi

work=$(realpath "$2") root=$(realpath "$2")/root
fail() { echo "oci.sh: $*" >&2; cat "$work/serve.log" >&2; exit 1; }
ip link set lo up
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --bind "$work/models" "$root/mnt/models"
mount -o remount,bind,ro "$root/mnt/models"
mount -t tmpfs -o uid=65532,gid=65532,mode=750 tmpfs "$root/var/lib/edgewise"
mount -t tmpfs tmpfs "$root/tmp"
cp configs/demo/samples/speech.wav "$root/tmp/"
mount -o remount,bind,ro "$root"
[ ! -e "$root/bin/sh" ] && [ ! -e "$root/usr/bin/sh" ] || fail "the image has a shell"
[ -z "$(find "$root" -xdev -perm /6000 -type f)" ] || fail "the image has programs that change their user"
! touch "$root/usr/x" 2>/dev/null || fail "the root file system can be written to"

# run runs a program of the image as its user, without capabilities
run() { setpriv --bounding-set=-all,+setuid,+setgid,+sys_chroot --inh-caps=-all --no-new-privs chroot --userspec=65532:65532 --groups= "$root" /usr/bin/edgewise "$@"; }
HOME=/var/lib/edgewise; export HOME
run doctor --set data_dir=/var/lib/edgewise >"$work/serve.log" 2>&1 || fail "doctor finds something"
run backend list | grep -q '^llama: platform llama_cpp, in /usr/lib/edgewise/lib/backends/llama$' || fail "the backend of GGUF files is not there"
run serve --config /etc/edgewise/appliance.yaml >"$work/serve.log" 2>&1 &
for _ in $(seq 240); do
	# the container's health is that of all its models
	if curl -sf http://127.0.0.1:8000/v2/models/speech/ready >/dev/null && curl -sf http://127.0.0.1:8000/v2/health/ready >/dev/null; then break; fi
	sleep 0.5
done
curl -sf http://127.0.0.1:8000/v2/health/ready >/dev/null || fail "the box is not ready"
curl -sf http://127.0.0.1:8002/metrics | grep -q nv_inference || fail "the metrics page does not answer on port 8002"
answer=$(run --server http://127.0.0.1:8000 demo vad /tmp/speech.wav)
grep -q "0.93 s" <<<"$answer" || fail "the model in /mnt/models answers: $answer"
curl -sf http://127.0.0.1:8000/api/v1/system/update | grep -q '"kind":"container"' || fail "the box does not know that it is a container"
echo "ok"
