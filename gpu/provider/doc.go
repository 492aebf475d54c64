// Package provider looks at ONNX Runtime's GPU providers, the libraries that stand beside it: which other libraries
// they need, where those are, and for which generations of GPUs they bring code. It also opens the libraries that a
// provider needs, because a provider finds only what is open already or what the dynamic linker knows.
package provider
