//go:build tools

// Package etcd pins the version of the etcd that test/cluster builds.
package etcd

import _ "go.etcd.io/etcd/server/v3"
