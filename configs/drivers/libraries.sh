# Sourced by the scripts that make driver extensions: packages of Debian, without installing them, and the libraries of a driver.

# fetch WORK SUITE COMPONENTS: what apt then fetches is of that suite; lists and packages stay in WORK
fetch_from() {
	apt_work=$1
	mkdir -p "$apt_work/lists/partial" "$apt_work/cache/archives/partial"
	: >"$apt_work/status"
	local key=/usr/share/keyrings/debian-archive-keyring.gpg mirror
	mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Origin: Debian' | grep -v security | head -n 1)
	[ -n "$mirror" ] || { echo "apt-get has no source of Debian's packages" >&2; exit 1; }
	echo "deb [signed-by=$key] $mirror $2 $3" >"$apt_work/sources.list"
	apt_private -qq update
}

# apt_private WORDS: apt-get with lists, packages and a status of its own
apt_private() {
	apt-get -o Dir::State::status="$apt_work/status" -o Dir::Etc::SourceList="$apt_work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::State::Lists="$apt_work/lists" -o Dir::Cache="$apt_work/cache" -o APT::Sandbox::User=root "$@"
}

# closure FROM TO SLOT: copies what the libraries in TO need from the unpacked packages in FROM, unless the list SLOT of the slot's files
# has it, and makes all of them find each other in their own folder
closure() {
	local from=$1 to=$2 slot=$3 file needed found again=yes
	while [ -n "$again" ]; do
		again=
		for file in "$to"/*.so*; do
			for needed in $(patchelf --print-needed "$file"); do
				if [ -e "$to/$needed" ] || grep -q "/$needed\$" "$slot"; then continue; fi
				found=$(find "$from" -name "$needed" | head -n 1)
				[ -n "$found" ] || { echo "$(basename "$file") needs $needed, which is neither in the slot nor in the packages" >&2; exit 1; }
				cp -L "$found" "$to/$needed"
				again=yes
			done
		done
	done
	for file in "$to"/*.so*; do patchelf --set-rpath '$ORIGIN' "$file"; done
}
