// Package host reads what Linux tells of the machine and of processes: memory, processors, their load and limits. It is
// the one reader of each of these files below /proc and /sys. Root is the folder that holds both, "/" outside of tests.
package host
