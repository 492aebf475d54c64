#!/bin/bash
# Builds what the tests of the chart need, at pinned versions: test/cluster/tools.sh FOLDER
#
# etcd, kube-apiserver, helm and kubeconform, and of the five newest versions of Kubernetes the description of their API. The first time takes
# some ten minutes on two cores.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1" && cd "$1"
to=$PWD
export CGO_ENABLED=0 GOBIN=$to
go=${GO:-go}

kubernetes=$(sed -n 's/^require k8s.io\/kubernetes //p' "$here/kubernetes/go.mod")
number=${kubernetes#v1.}
version=k8s.io/component-base/version
[ -x helm ] || "$go" install -ldflags "-s -w" helm.sh/helm/v4/cmd/helm@v4.3.1
[ -x kubeconform ] || "$go" install -ldflags "-s -w" github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0
[ -x etcd ] || "$go" build -C "$here/etcd" -ldflags "-s -w" -o "$to/etcd" go.etcd.io/etcd/server/v3
[ -x kube-apiserver ] || "$go" build -C "$here/kubernetes" -o "$to/kube-apiserver" \
	-ldflags "-s -w -X $version.gitVersion=$kubernetes -X $version.gitMajor=1 -X $version.gitMinor=${number%%.*}" k8s.io/kubernetes/cmd/kube-apiserver

for release in v1.33.13 v1.34.4 v1.35.4 v1.36.3 "$kubernetes"; do
	[ ! -s "$release.json" ] || continue
	modules=$(mktemp -d)
	GOFLAGS=-modcacherw GOMODCACHE=$modules "$go" mod download "k8s.io/kubernetes@$release"
	mv "$modules/k8s.io/kubernetes@$release/api/openapi-spec/swagger.json" "$release.json"
	rm -rf "$modules"
done
