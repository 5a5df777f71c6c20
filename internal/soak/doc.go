// Package soak runs a real server under a mixed and hostile load for a long time
// and looks whether it is as new afterwards. It owns the load, what is demanded
// of the answers meanwhile, and what is demanded of the process in the end.
//
// The verified load is that of package bench: hundreds to thousands of
// connections. Beside it come and go clients that leave in every way there is,
// processes that are killed, slow readers, garbage, wrong digests and silence,
// while secrets and certificates are exchanged, file descriptors run out and
// metrics are read. A server with TLS has a third of it, at the same time.
//
// It never reaches into the server: it knows the protocol, the admin endpoint
// and /proc. It is a test alone; nothing imports it. SOAK=10m sets how long it
// runs; without it, a few seconds. `make soak` is how it is meant to be run.
package soak
