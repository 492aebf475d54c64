// Package wat assembles WebAssembly modules from their text form, for tests: the part of the format that the tests
// need, both linear and folded. A module that is invalid on purpose is assembled as it is written: nothing is checked
// that assembling does not need.
//
// Beside the standard's text, (raw "\00...") at the level of the module puts bytes where they stand, as a whole section
// or as nonsense, (bytes "...") alone is a file of these bytes, and a type, function or global may be named by a number
// that does not exist.
package wat
