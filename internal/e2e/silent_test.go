package e2e

import (
	"testing"
)

// BenchmarkSilent tells what connections that stay and finish nothing cost the
// server in memory: those that say nothing, and those that begin a line or a
// frame. The kernel's memory for a socket is not in it.
func BenchmarkSilent(b *testing.B) {
	const connections = 2000
	cert, key := selfSigned(b)
	withTLS := []string{"TLS_CERT_FILE=" + cert, "TLS_KEY_FILE=" + key}
	for name, c := range map[string]struct {
		env  []string
		says []byte
	}{
		"says nothing":           {[]string{"AUTH_SECRET=" + secret}, nil},
		"255 bytes of a line":    {[]string{"AUTH_SECRET=" + secret}, []byte(text(255))},
		"191 bytes of a frame":   {nil, []byte("A" + text(190))},
		"says nothing, TLS":      {withTLS, nil},
		"half a ClientHello":     {withTLS, clientHello(b)[:200]},
		"a TLS header of 16 KiB": {withTLS, []byte{22, 3, 1, 0x40, 0}},
	} {
		b.Run(name, func(b *testing.B) {
			s := start(b, append([]string{"LOOPS=1", "MAX_CONNECTIONS=8192"}, c.env...)...)
			before := s.footprint(b)
			for range b.N {
				var all []*peer
				for range connections {
					p, err := s.tryDial(b, 0)
					if err != nil {
						b.Fatal(err)
					}
					defer p.close()
					if err := p.write(c.says); err != nil {
						b.Fatal(err)
					}
					all = append(all, p)
				}
				await(b, "all are there", func() bool { return s.metrics(b)["ticketing_connections"] == connections })
				now := s.footprint(b)
				b.ReportMetric(float64(now.heap-before.heap)/connections, "heap-B/conn")
				b.ReportMetric(float64(now.rss-before.rss)/connections, "resident-B/conn")
				for _, p := range all {
					p.close()
				}
				await(b, "all have gone", func() bool { return s.metrics(b)["ticketing_connections"] == 0 })
			}
		})
	}
}
