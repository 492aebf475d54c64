// Package samples makes what steps are given: pictures, sounds, and what models answer. The same seed gives the same
// bytes.
package samples
