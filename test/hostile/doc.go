// Package hostile holds modules that mean harm against a box: it uploads the corpus of wasm/testdata/hostile, calls
// what is accepted over and over, and looks at what the box says of itself.
package hostile
