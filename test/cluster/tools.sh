#!/bin/bash
# Builds what the tests of the chart need, at pinned versions: test/cluster/tools.sh FOLDER
#
# etcd, Kubernetes, containerd, helm and kubeconform from their modules, runc, nft and the network plugins from Debian's packages, and of the five
# newest versions of Kubernetes the description of their API. The first time takes half an hour on two cores.
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
for part in kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy; do
	[ -x $part ] || "$go" build -C "$here/kubernetes" -o "$to/$part" \
		-ldflags "-s -w -X $version.gitVersion=$kubernetes -X $version.gitMajor=1 -X $version.gitMinor=${number%%.*}" k8s.io/kubernetes/cmd/$part
done
for part in containerd containerd-shim-runc-v2 ctr; do
	[ -x $part ] || "$go" build -C "$here/containerd" -ldflags "-s -w" -o "$to/$part" github.com/containerd/containerd/v2/cmd/$part
done
if [ ! -d pause ]; then # the image of what a pod's namespaces belong to: it stands where Edgewise stands in its own
	root=$(mktemp -d)
	mkdir -p "$root/usr/lib/edgewise"
	${CC:-cc} -Os -static -DVERSION="$kubernetes" -o "$root/usr/lib/edgewise/edgewise" \
		"$("$go" list -C "$here/kubernetes" -m -f '{{.Dir}}' k8s.io/kubernetes)/build/pause/linux/pause.c"
	(cd "$here/../.." && "$go" run ./configs/oci -root "$root" -version test -out "$to/pause.new")
	mv pause.new pause
	rm -rf "$root"
fi

debian=(runc=1.1.5+ds1-1+deb12u1 containernetworking-plugins=1.1.1+ds1-3+b5 nftables=1.0.6-2+deb12u2 libnftables1=1.0.6-2+deb12u2
	libnftnl11=1.2.4-2 libedit2=3.1-20221030-2 libjansson4=2.14-2)
if [ ! -d debian ]; then
	fetched=$(mktemp -d)
	(cd "$fetched" && apt-get download "${debian[@]}" >log 2>&1) ||
		{ tail -n 3 "$fetched/log" >&2; echo "tools.sh: apt-get cannot fetch ${debian[*]}: Debian 12 has other versions now, or this is another system" >&2; exit 1; }
	for package in "$fetched"/*.deb; do dpkg-deb -x "$package" "$fetched/root"; done
	mv "$fetched/root" debian
	rm -rf "$fetched"
fi

for release in v1.33.13 v1.34.4 v1.35.4 v1.36.3 "$kubernetes"; do
	[ ! -s "$release.json" ] || continue
	modules=$(mktemp -d)
	GOFLAGS=-modcacherw GOMODCACHE=$modules "$go" mod download "k8s.io/kubernetes@$release"
	mv "$modules/k8s.io/kubernetes@$release/api/openapi-spec/swagger.json" "$release.json"
	rm -rf "$modules"
done
