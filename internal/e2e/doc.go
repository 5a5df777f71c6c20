// Package e2e judges the server from outside. It owns the black-box suite:
// raw bytes over real TCP sockets against the real binary, started as a
// process of its own for each test and ended by SIGKILL.
//
// It knows the wire protocol and the operating manual and nothing else: it
// imports no package of the project and writes and reads frames by hand, so a
// defect of the codec cannot hide behind itself. It never reaches into the
// server, and timing decides only what the protocol says about time.
//
// Nothing imports it; `go test ./internal/e2e` runs it. Settings:
//
//	E2E_FULL=1    the greatest number of connections the protocol allows
//	E2E_RACE=1    the server is built with the race detector
//	E2E_TAGS=...  build tags for the server, such as debug
//	E2E_SEED=n    repeats a random run; every such test prints its seed
//	E2E_BINARY=p  judges the binary at p instead of building one
package e2e
