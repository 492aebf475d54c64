// Package fuel rewrites a WebAssembly module so that it can be stopped. Compiled guest code cannot be interrupted: a
// guest that loops would keep its thread, and the garbage collector waiting, for ever. So a counter is charged at the
// entry of functions and at the head of loops, and when it is spent the module calls its host, which refills it or
// stops the module.
//
// A unit of fuel is about one instruction: a block costs as many units as it has instructions, whether or not all of
// them run, and instructions that work on a length cost more with it. Functions that neither call nor loop are not
// charged themselves; whoever calls them pays.
//
// A second counter holds the frames of functions that call others, so that calls cannot nest without end: the runtime
// would let a stack grow to some 100 MB.
//
// The package reads the binary format within Limits and never panics on any input. It does not check types: that is
// left to the runtime that compiles the result. But it refuses every index out of range, so that a module can neither
// reach nor forge what the rewriting adds. Custom sections are left out, except the names of functions
// and the lines of their source.
package fuel
