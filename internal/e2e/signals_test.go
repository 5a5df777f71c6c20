package e2e

import (
	"encoding/json"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestHangupWithoutSecrets: SIGHUP has nothing to read again, and ends nothing.
func TestHangupWithoutSecrets(t *testing.T) {
	for _, env := range []string{"LOOPS=1", "AUTH_SECRET=" + secret} {
		s := start(t, env)
		open := func() *peer {
			if env == "LOOPS=1" {
				return s.dial(t)
			}
			return s.login(t, secret)
		}
		p := open()
		token := p.lock("k", 250)
		for range 3 {
			s.signal(t, syscall.SIGHUP)
			p.refused('T', 0, "k")
			q := open()
			q.quiet()
			q.close()
		}
		p.unlock(token, "k")
		s.signal(t, syscall.SIGTERM)
		p.rest()
		s.exitsCleanly(t, 5*time.Second)
	}
}

// TestDrainWithHandshakes: clients that are in their handshake do not hold the
// end up.
func TestDrainWithHandshakes(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		var ps []*peer
		for i := range 20 {
			p, nonce := s.challenged(t)
			p.send([]byte(digest(secret, nonce)[:i]))
			ps = append(ps, p)
		}
		in := s.login(t, secret)
		in.lock("k", 250)
		in.queue(250, 250, "k")
		s.signal(t, syscall.SIGTERM)
		in.ends(shuttingDown)
		for _, p := range ps {
			if b, err := p.rest(); err != nil || string(b) != "" && string(b) != shuttingDown {
				t.Errorf("in the handshake: got %q, %v", b, err)
			}
		}
		s.exitsCleanly(t, 5*time.Second)
	}, "AUTH_SECRET="+secret)
}

// TestLogs: each line of the JSON log is JSON, and the level holds.
func TestLogs(t *testing.T) {
	for _, level := range []string{"debug", "error"} {
		s := start(t, "LOG_FORMAT=json", "LOG_LEVEL="+level)
		for range 5 {
			p := s.dial(t)
			p.send([]byte("?"))
			p.ends("Ebad_op\n")
			p.close()
		}
		s.signal(t, syscall.SIGTERM)
		s.exitsCleanly(t, 5*time.Second)
		log := s.stderr.String()
		if level == "error" && log != "" {
			t.Errorf("errors only, and the log has:\n%s", log)
		}
		if level == "debug" && !strings.Contains(log, s.addr) {
			t.Errorf("the address is not in the log:\n%s", log)
		}
		for line := range strings.Lines(log) {
			var fields map[string]any
			if err := json.Unmarshal([]byte(line), &fields); err != nil || fields["msg"] == nil || fields["level"] == nil {
				t.Errorf("%q: %v", line, err)
			}
		}
	}
}

// TestIPv6 serves on the other loopback address.
func TestIPv6(t *testing.T) {
	if l, err := net.Listen("tcp6", "[::1]:0"); err != nil {
		t.Skip(err)
	} else {
		l.Close()
	}
	s := start(t, "LISTEN_ADDR=[::1]:0", "ADMIN_ADDR=[::1]:0")
	p := s.dial(t)
	p.unlock(p.lock("k", 30), "k")
	if status, _ := s.get(t, "/readyz"); status != 200 {
		t.Errorf("/readyz is %d", status)
	}
}
