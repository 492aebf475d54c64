// Package sdk holds the tests that build steps from source: the worked examples and templates of all SDKs, the
// conformance steps and the gallery.
package sdk
