// Package kubernetes pins the version of the Kubernetes that test/cluster builds.
package kubernetes

import _ "k8s.io/kubernetes/cmd/kube-apiserver/app"
