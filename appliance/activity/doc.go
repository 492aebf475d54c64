// Package activity remembers what a box has done lately, within bounds and in memory: the lines of its log, the
// requests it answered, how fast each version was over the last hour; and it tells those who listen what happens.
package activity
