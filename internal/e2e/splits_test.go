package e2e

import (
	"fmt"
	"testing"
)

// dribbled is a frame as one-byte pieces.
func dribbled(b []byte) (pieces [][]byte) {
	for i := range b {
		pieces = append(pieces, b[i:i+1])
	}
	return pieces
}

// splits are the frame cut in two at every place and, when it is short, cut in
// three at every two places.
func splits(b []byte) (all [][][]byte) {
	for i := 1; i < len(b); i++ {
		all = append(all, [][]byte{b[:i], b[i:]})
		for j := i + 1; j < len(b) && len(b) <= 24; j++ {
			all = append(all, [][]byte{b[:i], b[i:j], b[j:]})
		}
	}
	return all
}

// TestBadFramesDribbled sends each malformed frame one byte at a time. The
// server may know the error before the last byte: the rest is ignored.
func TestBadFramesDribbled(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		var peers []*peer
		var pieces [][][]byte
		frames := badFrames()
		for i := range frames {
			if len(frames[i].bytes) > 200 {
				frames[i].bytes = frames[i].bytes[:200]
			}
			peers = append(peers, s.dial(t))
			pieces = append(pieces, dribbled(frames[i].bytes))
		}
		s.feed(t, peers, pieces)
		for i, f := range frames {
			if err := peers[i].wantEnd("E" + f.reason + "\n"); err != nil {
				t.Errorf("%s: %v", f.name, err)
			}
		}
	})
}

// TestBadFramesSplit sends malformed frames cut at every place.
func TestBadFramesSplit(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		for _, f := range []badFrame{
			{"lease", acquire(newlines, 10, 0, "key"), "bad_lease"},
			{"empty key", acquire(newlines, 10, 10, ""), "bad_key"},
			{"empty key of R", release(newlines, ""), "bad_key"},
			{"space", release(1, "a b"), "bad_key"},
			{"UTF-8", acquire(1, 0, 1, "é\xe2\x82"), "bad_key"},
			{"129 bytes", acquire(1, 0, 1, text(129)), "bad_key"},
			{"192 bytes", acquire(1, 0, 1, text(181)), "bad_key"},
			{"193 bytes", cut(acquire(1, 0, 0, text(182))), "line_too_long"},
			{"193 bytes of R", cut(release(newlines, text(184))), "line_too_long"},
			{"op", []byte("\n\n\nx\n"), "bad_op"},
		} {
			all := splits(f.bytes)
			peers := s.dials(t, len(all))
			s.feed(t, peers, all)
			for i, p := range peers {
				if err := p.wantEnd("E" + f.reason + "\n"); err != nil {
					t.Fatalf("%s, split %d: %v", f.name, i, err)
				}
				p.close()
			}
		}
	}, "MAX_CONNECTIONS=4096")
}

// TestGoodFramesSplit takes and returns locks with frames cut at every place
// and dribbled.
func TestGoodFramesSplit(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		for _, shape := range []struct {
			owner uint64
			tail  string
		}{{7, ""}, {newlines, "\r"}, {newlines, text(124)}} {
			n := len(splits(acquire(0, 0, 1, "0000"+shape.tail))) + 1
			peers := s.dials(t, n)
			keys := make([]string, n)
			pieces := make([][][]byte, n)
			for i := range keys {
				keys[i] = fmt.Sprintf("%04d%s", i, shape.tail)
				frame := acquire(shape.owner, 10, 250, keys[i])
				pieces[i] = append(splits(frame), dribbled(frame))[i]
			}
			s.feed(t, peers, pieces)
			for i, p := range peers {
				token := p.expect('A', shape.owner, keys[i]).token
				// A keep-alive in front and a bad release behind, cut with it.
				frame := append(append([]byte("\n"), release(token, keys[i])...), release(token, keys[i])...)
				all := splits(frame)
				pieces[i] = all[i%len(all)]
				if i == n-1 {
					pieces[i] = dribbled(frame)
				}
			}
			s.feed(t, peers, pieces)
			for i, p := range peers {
				rs := p.collect(2)
				if rs[0].text != keys[i] || rs[1].text != keys[i] || rs[0].op+rs[1].op != 'R'+'N' {
					t.Fatalf("split %d: got %v", i, rs)
				}
				p.close()
			}
		}
	}, "MAX_CONNECTIONS=4096")
}

// TestBoundary192 walks over the edge of a frame byte by byte: 192 bytes
// without a newline are no error yet, and the 193rd decides.
func TestBoundary192(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		for name, frame := range map[string][]byte{
			"A": cut(acquire(newlines, 10, 10, text(181))),
			"R": cut(release(newlines, text(183))),
		} {
			if len(frame) != 192 {
				t.Fatalf("%s: the test has a frame of %d bytes", name, len(frame))
			}
			for next, want := range map[string]string{
				"\n": "Ebad_key\n", "k": "Eline_too_long\n", "k\n": "Eline_too_long\n", " ": "Eline_too_long\n",
			} {
				p := s.dial(t)
				p.send(frame)
				s.pace(t)
				p.send([]byte(next))
				if err := p.wantEnd(want); err != nil {
					t.Errorf("%s and then %q: %v", name, next, err)
				}
			}
			p := s.dial(t)
			p.send(frame)
			p.closeWrite()
			if err := p.wantEnd("Ebad_request\n"); err != nil {
				t.Errorf("%s and then EOF: %v", name, err)
			}
		}
	})
}
