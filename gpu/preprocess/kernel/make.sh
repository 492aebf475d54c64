#!/bin/sh
# Makes preprocess.ptx of preprocess.cu: make.sh TARGET. It takes clang 19 and neither CUDA nor a GPU. PTX for generation 7.5 runs on
# every later one. No multiply and add is joined into one, so that the result is the CPU's, bit for bit.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
clang=${CLANG:-clang-19}
cd "$here" # so that no path of a machine gets into the text
"$clang" -x cuda --cuda-device-only --cuda-gpu-arch=sm_75 -nocudainc -nocudalib -std=c++17 -O3 -ffp-contract=off -S preprocess.cu -o - | grep -v '^//\|^$' >"$1"
