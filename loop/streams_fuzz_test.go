package loop

import (
	"context"
	"crypto/tls"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"ticketing/auth"
)

// programServers are what programs run on.
var programServers = []struct {
	loops  int
	secret string
	full   bool
	tls    bool
}{
	{loops: 1}, {loops: 2}, {loops: 3}, {loops: 2, secret: "secret"}, {loops: 2, full: true},
	{loops: 2, tls: true}, {loops: 1, secret: "secret", tls: true},
}

// startProgramServers runs one server of each kind until f ends.
func startProgramServers(f *testing.F) (servers []*Server) {
	for _, kind := range programServers {
		cfg := Config{
			ListenAddr: "127.0.0.1:0", Loops: kind.loops, MaxConnections: 64, MaxWaiters: DefaultWaiters,
			MaxTotalWaiters: DefaultTotalWaiters, MaxKeys: DefaultKeys, DrainTimeout: 5 * time.Second,
			Logger: slog.New(slog.DiscardHandler),
		}
		if kind.secret != "" {
			secrets, err := auth.NewSecrets([]byte("another"), []byte(kind.secret))
			if err != nil {
				f.Fatal(err)
			}
			cfg.Secrets = secrets
		}
		if kind.full {
			cfg.MaxWaiters, cfg.MaxTotalWaiters, cfg.MaxKeys = 2, 5, 5
		}
		if kind.tls {
			cfg.TLS = serverTLS(f)
		}
		srv, err := New(cfg)
		if err != nil {
			f.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- srv.Serve(ctx) }()
		f.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				f.Errorf("Serve: %v", err)
			}
		})
		servers = append(servers, srv)
	}
	return servers
}

// FuzzStreams feeds a whole server with interleaved byte streams.
func FuzzStreams(f *testing.F) {
	servers := startProgramServers(f)
	for seed := range uint64(160) {
		f.Add(randomStreams(seed))
	}
	f.Fuzz(func(t *testing.T, code []byte) {
		if len(code) < 2 || len(code) > 1024 {
			return
		}
		kind := int(code[0]) % len(servers)
		p := &program{t: t, code: code[2:], calm: code[1]%2 == 0, j: newJudge(servers[kind], programServers[kind].full),
			secrets: servers[kind].secrets.Load(), stalled: make([]func(), programServers[kind].loops)}
		if programServers[kind].tls {
			p.version = []uint16{tls.VersionTLS12, tls.VersionTLS13}[code[1]/2%2]
		}
		for _, l := range servers[kind].loops {
			p.syncKeys = append(p.syncKeys, keysOf(l, 1)[0])
		}
		p.run()
	})
}

// randomStreams returns a program that makes some sense: frames in batches, sent
// whole or cut, with TLS also inside records, for few keys, and seldom garbage.
func randomStreams(seed uint64) []byte {
	random := rand.New(rand.NewPCG(seed, 0))
	code := []byte{byte(seed), byte(random.Uint32())}
	records := programServers[seed%uint64(len(programServers))].tls
	keys := byte(1 + random.IntN(8))
	for range 5 + random.IntN(40) {
		on := byte(random.IntN(4)) << 4
		say := func(op byte) { code = append(code, on|op, byte(random.Uint32())&^7|byte(random.IntN(8))%keys) }
		for range random.IntN(6) {
			say([]byte{3, 3, 3, 6, 6, 8}[random.IntN(6)])
			if last := len(code) - 1; code[last-1]&15 == 8 {
				code = code[:last]
			}
		}
		if random.IntN(8) == 0 {
			code = append(code, on, 3, "AR\n\x00\x01k \xff"[random.IntN(8)], 'x', '\n')
		}
		if random.IntN(4) == 0 {
			code = append(code, on|9, byte(1+random.IntN(40)))
		}
		if records && random.IntN(4) == 0 {
			code = append(code, on|10, 0, byte(random.IntN(120)))
		} else {
			code = append(code, on|9, 0)
		}
		switch random.IntN(10) {
		case 0:
			how := byte(11 + random.IntN(3))
			if code = append(code, on|how); records && how == 11 {
				code = append(code, byte(random.IntN(4)))
			}
		case 1, 2, 3:
			say(14)
			code[len(code)-1] = byte(random.IntN(8))
		case 4, 5:
			say(15)
		}
	}
	return code
}
