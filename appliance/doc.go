// Package appliance is the house: it builds every part, knows how they meet, and runs them until it is told to stop.
//
// Read build.go first: it is all wiring, from top to bottom.
package appliance

// Version is the release of the program.
const Version = "0.1.0"
