package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestRotation: SIGHUP reads the secrets again. Connections live on, a file
// that does not load changes nothing, and no secret is ever logged.
func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secrets")
	writeSecrets(t, path, "old-secret\n")
	onLoops(t, func(t *testing.T, s *server) {
		opens := func(secret string) bool {
			p := s.login(t, secret)
			defer p.close()
			if err := p.write(release(0, "k")); err != nil {
				return false
			}
			r, err := p.next()
			if err != nil || r.op != 'E' && r.op != 'N' || r.op == 'E' && r.text != "auth_failed" {
				t.Fatalf("got %v, %v", r, err)
			}
			return r.op == 'N'
		}
		live := s.login(t, "old-secret")
		token := live.lock("held", 250)
		pending, nonce := s.challenged(t)

		writeSecrets(t, path, "new-secret\nold-secret\n")
		s.signal(t, syscall.SIGHUP)
		await(t, "the new secret is accepted", func() bool { return opens("new-secret") })
		if !opens("old-secret") {
			t.Error("the old secret is refused while the file has it")
		}
		writeSecrets(t, path, "new-secret\n")
		s.signal(t, syscall.SIGHUP)
		await(t, "the old secret is refused", func() bool { return !opens("old-secret") })

		live.refused('T', 0, "held")
		o := live.queue(250, 250, "held")
		other := s.login(t, "new-secret")
		other.unlock(token, "held")
		live.expect('A', o, "held")
		pending.send([]byte(digest("new-secret", nonce) + "\n"))
		pending.quiet()

		for what, spoil := range map[string]func(){
			"empty":   func() { writeSecrets(t, path, "") },
			"blank":   func() { writeSecrets(t, path, "\n\n\n") },
			"missing": func() { os.Remove(path) },
		} {
			errors := strings.Count(s.stderr.String(), "level=ERROR")
			spoil()
			s.signal(t, syscall.SIGHUP)
			await(t, what+": an error is logged", func() bool {
				return strings.Count(s.stderr.String(), "level=ERROR") > errors
			})
			if !opens("new-secret") || opens("old-secret") {
				t.Errorf("%s: the secrets changed", what)
			}
		}
		live.quiet()
		writeSecrets(t, path, "old-secret\n") // for the next server
		for _, secret := range []string{"old-secret", "new-secret"} {
			if strings.Contains(s.stderr.String(), secret) {
				t.Errorf("a secret was logged")
			}
		}
	}, "AUTH_SECRET_FILE="+path)
}

// TestLoopbackOnly: without a secret a server that others can reach refuses
// to start, unless told so (§8.6). Nothing but this host connects to it.
func TestLoopbackOnly(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		code, stderr := refuses(t, "LISTEN_ADDR="+addr)
		if code != 2 || !strings.Contains(stderr, "LISTEN_ADDR") || !strings.Contains(stderr, "ALLOW_INSECURE") {
			t.Errorf("%s: exit %d: %s", addr, code, stderr)
		}
		if code, _ := refuses(t, "LISTEN_ADDR="+addr, "ALLOW_INSECURE=false"); code != 2 {
			t.Errorf("%s: exit %d", addr, code)
		}
	}
	local := func(s *server) {
		s.addr = "127.0.0.1" + s.addr[strings.LastIndexByte(s.addr, ':'):]
	}
	s := start(t, "LISTEN_ADDR=0.0.0.0:0", "ALLOW_INSECURE=true")
	local(s)
	s.dial(t).quiet()
	s = start(t, "LISTEN_ADDR=0.0.0.0:0", "AUTH_SECRET="+secret)
	local(s)
	s.login(t, secret).quiet()
	s.login(t, "another").ends("Eauth_failed\n")
	for _, addr := range []string{"127.0.0.2:0", "localhost:0"} {
		start(t, "LISTEN_ADDR="+addr).dial(t).quiet()
	}
}
