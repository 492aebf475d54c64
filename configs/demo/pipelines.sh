#!/bin/sh
# Lays out the demonstration's pipelines as a model repository that "edgewise model import" reads: the steps they need,
# and the ensembles of those steps and of the models.
#
#   configs/demo/pipelines.sh MODELS REPOSITORY        e.g. dist/demo/models dist/demo/pipelines
#
# The modules in steps/ are those that "edgewise step build" makes of sdk/gallery; a test compares them ("make
# demo-steps" makes them anew). So the demonstration needs no compiler for WebAssembly.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
[ $# -eq 2 ] || { echo "pipelines.sh: want two folders: pipelines.sh MODELS REPOSITORY" >&2; exit 1; }
models=$1
repository=$2

# put FILE NAME: copies a file into the repository, when it differs.
put() {
	mkdir -p "$(dirname "$repository/$2")"
	cmp -s "$1" "$repository/$2" || cp "$1" "$repository/$2"
}

# text MODEL NAME: the configuration of a step that reads what MODEL answers. Its alphabet is that of the model's labels
# without the first, which is "none", and the last, the space.
text() {
	new=$repository/$2.new
	mkdir -p "$(dirname "$new")"
	{
		echo "# Made by configs/demo/pipelines.sh of the labels of $1."
		echo 'parameters { key: "space_threshold" value { string_value: "0.005" } }'
		printf 'parameters { key: "alphabet" value { string_value: "'
		sed -e '1d' -e '$d' -e 's/[\\"]/\\&/g' -e 's/$/\\n/' "$models/$1/labels.txt" | tr -d '\n'
		echo '" } }'
	} >"$new"
	cmp -s "$new" "$repository/$2" && rm "$new" || mv "$new" "$repository/$2"
}

for step in face_input anchors ocr_input ocr_regions ocr_lines speech; do
	put "$here/steps/$step.wasm" $step/1/model.wasm
done
put "$here/steps/ctc.wasm" ocr_text/1/model.wasm
text ocr_recognize ocr_text/config.pbtxt
for name in speech faces text; do
	put "$here/pipelines/$name/config.pbtxt" $name/config.pbtxt
	mkdir -p "$repository/$name/1"
done
