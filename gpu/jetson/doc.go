// Package jetson reads what a Jetson tells of itself in the file system: what it is, the load and clock of its GPU, its
// memory, temperatures, power rails, and power mode. NVML tells little or nothing of that there. It only reads; the
// root of the file system is a parameter, and files that are missing, unreadable or garbled are values that are absent.
package jetson
