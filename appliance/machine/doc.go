// Package machine reads what the machine has and does: memory and processors.
package machine
