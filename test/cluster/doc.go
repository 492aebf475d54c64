// Package cluster tests the Helm chart and KServe's objects in configs/kubernetes against a real API server and the API
// descriptions of five versions of Kubernetes, and runs the container on a node (tag cluster; "make cluster-test"). tools.sh
// builds the programs. KServe's resource definitions are in no registry: they are taken from a folder where there is one.
package cluster
