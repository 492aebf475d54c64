// Package listen accepts connections within bounds, and goes on when accepting fails for a moment.
package listen
