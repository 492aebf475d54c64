// Package perf is the load engine behind "edgewise perf": it sends one prepared request to a server of the v2 inference
// protocol over and over, in a closed loop (so many callers, each waits for its answer) or in an open loop (arrivals by
// a schedule, whether or not the server keeps up), and reports latency, throughput, errors and the server's own split.
//
// The generator shares the cores with the server on a small box, so a request costs it little: it writes bytes that
// were made once to a connection of its own, reads the answer without decoding it and counts in histograms of fixed
// size. Memory does not grow with the number of requests.
package perf
