// Package fakerauc stands in for RAUC on a message bus of its own, for tests of what speaks to RAUC on a machine
// without slots.
package fakerauc
