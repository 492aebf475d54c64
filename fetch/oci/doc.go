// Package oci reads and writes versions of models in OCI registries: one artifact a version, as docs/registries.md describes it.
//
// A manifest counts when its bytes have its digest, and, where that is wanted, a signature of a trusted key; a file when it has the
// digest of the manifest, which the engine of package download sees to.
package oci
