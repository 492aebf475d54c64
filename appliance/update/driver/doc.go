// Package driver is about driver extensions: files with a driver for graphics that a flashed box mounts beside its slot.
// It reads and checks them, keeps them in a folder of root's, and mounts those that fit the running slot.
// docs/formats/driver.md is the format, docs/decisions/0102-drivers-beside-the-slot.md says why.
package driver
