// Package remote makes a backend of a server of the inference protocol that runs beside the appliance: over HTTP or
// gRPC, on a Unix socket or an address of this machine alone. It checks everything that such a server says.
package remote
