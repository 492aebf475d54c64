// Package child starts, confines, watches and ends child processes that run native code or programs of a user's: those
// of package runner and of package external.
//
// Landlock, which a child inherits from the thread that starts it, keeps it away from files; a filter of system calls
// and limits, which it sets on itself, from everything else. See decision 0023.
package child
