package e2e

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

// TestEndsAreLogged: every kind of end that the server makes is in the log with
// its reason and the client's address, and nothing a client sent is: no secret,
// no digest, no token, no key.
func TestEndsAreLogged(t *testing.T) {
	const secretKey, token = "the-key-of-somebody", 0x7a6b5c4d3e2f1011
	onLoopsParallel(t, func(t *testing.T, s *server) {
		from := map[string]string{}
		var digests []string
		fail := func(reason string, logIn bool, b []byte) {
			p, nonce := s.challenged(t)
			from[reason] = p.conn.LocalAddr().String()
			if logIn {
				digests = append(digests, digest(secret, nonce))
				p.send([]byte(digests[len(digests)-1] + "\n"))
			}
			p.send(b)
			if reason == "bad_request" {
				p.closeWrite()
			}
			p.ends("E" + reason + "\n")
			p.close()
		}
		fail("bad_op", true, []byte("?"+secretKey+"\n"))
		fail("bad_lease", true, acquire(token, 0, 0, secretKey))
		fail("bad_key", true, release(token, secretKey+" "))
		fail("bad_request", true, release(token, secretKey)[:20])
		fail("line_too_long", true, release(token, strings.Repeat(secretKey, 20)))
		fail("auth_failed", false, []byte(digest(secretKey, "nonsense")+"\n"))

		slow := s.login(t, secret)
		from["slow_reader"] = slow.conn.LocalAddr().String()
		for s.metrics(t)[`ticketing_connections_closed_total{reason="slow_reader"}`] == 0 {
			if slow.write([]byte(strings.Repeat(string(release(token, secretKey)), 1000))) != nil {
				break
			}
		}
		silent, _ := s.challenged(t)
		from["handshake_timeout"] = silent.conn.LocalAddr().String()
		silent.ends("")
		for range 8 {
			defer s.login(t, secret).quiet()
		}
		turned := s.dial(t)
		if err := turned.turnedAway(); err != nil {
			t.Error(err)
		}
		await(t, "it is logged that a connection was refused", func() bool {
			return strings.Contains(s.stderr.String(), turned.conn.LocalAddr().String())
		})

		log := s.stderr.String()
		for line := range strings.Lines(log) {
			var n struct{ Msg, Reason, Client string }
			if err := json.Unmarshal([]byte(line), &n); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			if n.Msg == "connection ended by the server" && n.Client == from[n.Reason] {
				delete(from, n.Reason)
			}
		}
		for reason, client := range from {
			t.Errorf("it is not logged that %s was ended for %s", client, reason)
		}
		never := append(digests, secret, secretKey, strconv.Itoa(token), strconv.FormatInt(token, 16), digest(secretKey, "nonsense"))
		for _, text := range never {
			if strings.Contains(log, text) {
				t.Errorf("the log has %q", text)
			}
		}
	}, "AUTH_SECRET="+secret, "MAX_CONNECTIONS=8", "LOG_FORMAT=json", "LOG_LEVEL=debug")
}
