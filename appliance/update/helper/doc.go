// Package helper is the part of a box that has rights. The appliance itself is confined and may change nothing of the
// system; what needs more it asks of a small service of root's, over a socket that only the appliance's user may open.
// The helper trusts nothing that it is told: it installs what a key of the release has signed, and otherwise does a
// fixed set of things to this box alone. See docs/decisions/0029-privileged-update-helper.md.
package helper
