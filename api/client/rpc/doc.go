// Package rpc is the client of the inference protocol over gRPC: what package client is over HTTP. It speaks to any server
// of that protocol.
package rpc
