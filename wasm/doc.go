// Package wasm is the room for steps: pre- and post-processing in sandboxed WebAssembly modules. It is still empty; a
// model with platform "wasm" is refused with that reason.
package wasm
