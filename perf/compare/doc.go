// Command compare measures a Ticketing server beside its peers, in turns and in
// one run, on the machine it runs on, and writes docs/performance.md's tables,
// its plots and the figures behind them. It is a module of its own so that what
// only comparisons need stays out of the server's.
//
//	make compare           # everything, within ten minutes
//	make compare QUICK=1   # a minute, prints only
//
// It owns the processes of the servers (process.go), one load generator for all
// text protocols (generator.go), a driver for each peer, and the judgement of the
// targets (targets.go). It never measures two servers at the same time: all are
// up, one is driven for a fifth of a second while the others sleep, then the next,
// round after round, so that what drifts on the machine hits all alike.
//
// The generator is one thread with one epoll, the same for all but etcd. What a
// server costs is read from the CPU clock of its process, so the generator's own
// share does not matter to it.
package main
