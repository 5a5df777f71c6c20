// Package bench loads a server and judges its answers. It owns the load
// generator, the verifier, the result with its table, its JSON file and its
// report, and the comparison of two results.
//
// [Run] drives a server over raw, pipelined connections: a few threads, each
// with an epoll of its own, parse replies and append requests in batches with
// package codec. A connection has a number of slots; each slot makes one attempt
// after the other: acquire, hold, release. In the closed loop a slot that is
// free begins at once. In the open loop attempts begin by a schedule, whatever
// the server does, and latency counts from the instant an attempt was due.
//
// Every reply is judged (verify.go), by this process's clock alone. What is
// reported as a [Violation] no server that keeps the protocol can cause, however
// slow it, the network or this process is: the load never makes a server guilty.
//
// A round of a thread is: wait for replies, read all that are there, judge them
// and note what follows, then stamp and write it. So a release counts as sent
// when it is about to be written, and a second grant that was there before it is
// seen.
//
// The package starts no server, prints nothing and has no globals. cmd/ticketing
// and perf call it.
package bench
