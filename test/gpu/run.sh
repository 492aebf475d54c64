#!/bin/bash
# Runs gputest on a machine with a GPU, out of the folder that this script stands in. It needs nothing but the driver and the
# libraries of CUDA 13 (cudart, cublas, curand; cudnn for models with convolutions), which it looks for where the toolkit, the
# system and Python's packages put them. OUT is where the JSON goes. GPUTEST_FAKE=1: the driver is fake/libcuda.so.1,
# and the Vulkan device is fake/vk_swiftshader_icd.json.
set -euo pipefail
cd "$(dirname "$0")"
out=${OUT:-.}
mkdir -p lib
for packed in *.xz; do
	[ -e "$packed" ] || continue
	name=${packed%.xz}
	case $name in
	edgewise | gputest) target=$name ;;
	*) target=lib/$name ;;
	esac
	[ -f "$target" ] || { xz -dc "$packed" >"$target.new" && chmod 755 "$target.new" && mv "$target.new" "$target"; }
done
arguments=(-library "$PWD/lib/libonnxruntime.so.1" -server "$PWD/edgewise" -out "$out/gputest.json")
if [ "${GPUTEST_FAKE:-}" = 1 ]; then
	arguments+=(-fake -each 200ms -driver "$PWD/fake/libcuda.so.1" -folder "$PWD/fake"
		-vulkan "$PWD/fake/libvulkan.so.1" -vulkan-driver "$PWD/fake/vk_swiftshader_icd.json")
elif command -v python3 >/dev/null; then
	while read -r folder; do arguments+=(-folder "$folder"); done < <(python3 -c '
import glob, site, sys
for base in site.getsitepackages() + [site.getusersitepackages()]:
    for folder in sorted(glob.glob(base + "/nvidia/*/lib")): print(folder)')
fi
timeout 480 ./gputest -test.run '^TestGPU$' "${arguments[@]}" 2>"$out/gputest.log" | tee "$out/gputest.txt"
