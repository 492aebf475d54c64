// Package native does in Go what the picture steps of the gallery do in WebAssembly, with the same decoder, so that both can be
// compared. It is written as a program would be that does nothing else: in float32, with its buffers kept from call to call. Every
// type serves one caller at a time, and what it returns is valid until the next call.
package native
