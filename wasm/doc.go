// Package wasm is the Backend that runs steps: WebAssembly modules that turn tensors into tensors, under the ABI of
// docs/steps-abi.md.
//
// A module passes three gates when it is uploaded: package fuel decodes it within limits and makes it stoppable, the
// runtime validates and compiles it, and its imports and exports are held against the ABI. A loaded version keeps a few
// guests, instances of the module, each of which runs one request at a time.
//
// A guest that was stopped, that trapped or that returned what cannot be is dropped; its place is filled outside the
// path of requests. Between requests a guest is put back to its state after set-up, unless its configuration says that
// it is stateful. The bytes of a large result stay in the guest's memory until the result is released.
package wasm
