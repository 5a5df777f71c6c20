// Package scripted is a Ticketing server for the tests of clients: it does,
// frame by frame, what a test tells it to, and otherwise behaves like a real
// one. It is for everybody who writes a client of the protocol, in Go or, over
// a listener, in any language.
//
// A [Server] takes connections by [Server.DialContext] (in memory, over
// net.Pipe, so that a test can run in the virtual time of testing/synctest) or
// by [Server.Serve]. Each connection follows a script: one [Order] for each
// frame the client sends. When the script is at its end, or there is none, the
// connection follows [Server.Otherwise], which at first is [Honest]: queues,
// leases, waits and tokens as protocol §3 to §5 describe them.
//
//	srv := scripted.New()
//	srv.Script( // for the first connection
//		scripted.Grant(7),                       // 1st frame: granted, token 7
//		scripted.Silent(),                       // 2nd: never answered
//		scripted.After(3*time.Second, scripted.Timeout()),
//		scripted.CutInside(5),                   // 4th: 5 bytes are read, then the end
//	)
//	srv.Script(scripted.Error("shutting_down"))  // for the second
//	c, _ := client.New(client.Config{Addrs: []string{"any:1"}, DialContext: srv.DialContext})
//
// Several servers make a [Network], which connects by address: that is how a
// cluster's M and L are scripted. What arrived, when and where, is in
// [Server.Frames].
//
// A Server starts goroutines and timers; [Server.Close] ends them. It checks
// what it reads as strictly as a real server does (protocol §1.4), and has none
// of its limits (§7).
package scripted
