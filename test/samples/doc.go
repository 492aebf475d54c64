// Package samples makes what steps are given: tensors, and what a detector answers. The same seed gives the same
// bytes.
package samples
