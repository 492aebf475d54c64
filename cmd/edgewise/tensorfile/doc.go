// Package tensorfile reads files into tensors and writes tensors to files: NumPy arrays, JSON, raw bytes, pictures and
// WAV sound. It is what stands behind "edgewise infer -i name=FILE", and the picture and sound readers of the demos.
//
// Every reader is bounded by MaxFileBytes and MaxPixels, and every error names the file and what was wanted of it.
package tensorfile
