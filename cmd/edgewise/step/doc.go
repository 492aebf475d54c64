// Package step makes, builds, tests and measures steps without a box, for the command "edgewise step".
//
// A step's folder holds one source file, step.c, main.go, step.rs or step.ts, which tells its language; the SDK in the
// folder edgewise, where it has a copy of its own; and cases in the folder golden. Building makes model.wasm, which is
// all that a box needs. Tests and measurements run it in package wasm, as the box does and under the same limits.
package step
