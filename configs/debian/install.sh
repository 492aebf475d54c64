#!/bin/sh
# Installs Debian packages where the caller may, and waits while another package manager holds a lock. Where it cannot, it says
# what is missing and how to get it, and fails.
#
#   configs/debian/install.sh "what they are for" PACKAGE...
#
# APT_LOCK_SECONDS bounds the wait for all locks together: 900 unless it is set.
set -eu

[ $# -ge 2 ] || { echo "install.sh: want what the packages are for, and their names" >&2; exit 1; }
purpose=$1
shift

missing() {
	echo "missing: $* (on Debian: sudo apt-get install $*)" >&2
	exit 1
}

[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || missing "$@"
echo "installing $*, which $purpose"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
deadline=$(($(date +%s) + ${APT_LOCK_SECONDS:-900}))
told=

# apt ARGUMENTS: runs apt-get, again and again for as long as only another package manager is in the way: with a lock, of which
# DPkg::Lock::Timeout knows that of dpkg alone, or by removing the downloaded archives of this one when it ends.
apt() {
	until DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -qq -o DPkg::Lock::Timeout=60 "$@" >"$log" 2>&1 </dev/null; do
		if ! grep -q 'Could not get lock\|Unable to acquire the dpkg frontend lock\|Unable to lock \|cannot access archive' "$log"; then
			tail -n 20 "$log" >&2
			return 1
		fi
		if [ "$(date +%s)" -ge "$deadline" ]; then
			tail -n 3 "$log" >&2
			echo "install.sh: another package manager held its lock for ${APT_LOCK_SECONDS:-900} s" >&2
			return 1
		fi
		[ -n "$told" ] || { echo "waiting for another package manager to end"; told=1; }
		sleep 1
	done
}

apt update || missing "$@"
apt install -y --no-install-recommends "$@" || missing "$@"
