package e2e

import (
	"fmt"
	"io"
	"testing"
	"time"
)

// progress is how long a begun frame may take (§1.6).
const progress = 5 * time.Second

// soon is how much later than the progress timeout its error may come. The
// protocol sets no bound; this one only finds a timeout that is lost.
const soon = time.Second

// timesOut wants E bad_request a progress timeout after a moment between sent
// and wrote, in which the first byte of the frame was written.
func (p *peer) timesOut(sent, wrote time.Time) error {
	r, err := p.next()
	if err != nil {
		return err
	}
	if r.op != 'E' || r.text != "bad_request" {
		return fmt.Errorf("got %v, want Ebad_request", r)
	}
	if early := progress - r.at.Sub(sent); early > 0 {
		return fmt.Errorf("the error came %v early", early)
	}
	if late := r.at.Sub(wrote) - progress; late > soon+slack(wrote) {
		return fmt.Errorf("the error came %v late", late)
	}
	return p.wantEnd("")
}

// TestProgressTimeout runs every way to be slow side by side.
func TestProgressTimeout(t *testing.T) {
	whole := acquire(newlines, 0, 250, "whole")
	cases := map[string]func(s *server, p *peer) error{
		"one byte": func(s *server, p *peer) error {
			sent, wrote, err := p.timedWrite([]byte("A"))
			if err != nil {
				return err
			}
			return p.timesOut(sent, wrote)
		},
		"all but the newline": func(s *server, p *peer) error {
			sent, wrote, err := p.timedWrite(cut(release(newlines, "key")))
			if err != nil {
				return err
			}
			return p.timesOut(sent, wrote)
		},
		"192 bytes": func(s *server, p *peer) error {
			sent, wrote, err := p.timedWrite(cut(release(newlines, text(183))))
			if err != nil {
				return err
			}
			return p.timesOut(sent, wrote)
		},
		"dribbled": func(s *server, p *peer) error {
			sent, wrote, err := p.timedWrite([]byte("A"))
			if err != nil {
				return err
			}
			go func() {
				for _, b := range cut(acquire(newlines, 10, 10, text(128)))[1:] {
					time.Sleep(250 * time.Millisecond)
					if p.write([]byte{b}) != nil {
						return
					}
				}
			}()
			return p.timesOut(sent, wrote)
		},
		"behind whole frames": func(s *server, p *peer) error {
			key := "behind"
			sent, wrote, err := p.timedWrite(append(append([]byte("\n"), acquire(1, 0, 250, key)...), "R\n\n"...))
			if err != nil {
				return err
			}
			if _, err := p.want('A', 1, key); err != nil {
				return err
			}
			return p.timesOut(sent, wrote)
		},
		"after idling": func(s *server, p *peer) error {
			time.Sleep(2 * time.Second)
			if err := p.write([]byte("\n\n")); err != nil {
				return err
			}
			time.Sleep(2 * time.Second)
			sent, wrote, err := p.timedWrite([]byte("R"))
			if err != nil {
				return err
			}
			return p.timesOut(sent, wrote)
		},
		"just in time, twice": func(s *server, p *peer) error {
			for i := range 2 {
				frame := acquire(uint64(i), 0, 250, fmt.Sprint("just", i))
				if err := p.write(frame[:1]); err != nil {
					return err
				}
				time.Sleep(4 * time.Second)
				if err := p.write(frame[1:]); err != nil {
					return err
				}
				if _, err := p.want('A', uint64(i), fmt.Sprint("just", i)); err != nil {
					return err
				}
			}
			sent, wrote, err := p.timedWrite(whole[:12])
			if err != nil {
				return err
			}
			return p.timesOut(sent, wrote)
		},
		"a frame's end and the next one's begin": func(s *server, p *peer) error {
			if err := p.write(acquire(1, 0, 250, "end")[:9]); err != nil {
				return err
			}
			time.Sleep(3 * time.Second)
			sent, wrote, err := p.timedWrite(append(acquire(1, 0, 250, "end")[9:], 'A'))
			if err != nil {
				return err
			}
			if _, err := p.want('A', 1, "end"); err != nil {
				return err
			}
			return p.timesOut(sent, wrote) // counted from the second frame's first byte
		},
		"while waiting": func(s *server, p *peer) error {
			if err := p.write(acquire(1, 2, 250, "held"), acquire(2, 250, 250, "held"), release(0, "held")); err != nil {
				return err
			}
			if _, err := p.want('N', 0, "held"); err != nil {
				return err
			}
			sent, wrote, err := p.timedWrite([]byte("R"))
			if err != nil {
				return err
			}
			if _, err := p.want('T', 1, "held"); err != nil {
				return err
			}
			return p.timesOut(sent, wrote)
		},
		"idle": func(s *server, p *peer) error { return idle(p, "") },
		"idle after keep-alives": func(s *server, p *peer) error {
			return idle(p, "\n\n\n")
		},
		"idle after frames": func(s *server, p *peer) error {
			if err := p.write(acquire(1, 0, 250, "idle-after-frames")); err != nil {
				return err
			}
			if _, err := p.want('A', 1, "idle-after-frames"); err != nil {
				return err
			}
			return idle(p, "")
		},
		"idle with a waiter": func(s *server, p *peer) error {
			if err := p.write(acquire(1, 250, 250, "held"), release(0, "held")); err != nil {
				return err
			}
			if _, err := p.want('N', 0, "held"); err != nil {
				return err
			}
			return idle(p, "")
		},
	}
	onLoopsParallel(t, func(t *testing.T, s *server) {
		holder := s.dial(t)
		holder.lock("held", 250)
		for name, f := range cases {
			t.Run(tight(name), func(t *testing.T) {
				t.Parallel()
				if err := f(s, s.dial(t)); err != nil {
					t.Error(err)
				}
			})
		}
	})
}

// idle wants a connection to be served after it was silent for longer than any
// timeout of the protocol.
func idle(p *peer, first string) error {
	if err := p.write([]byte(first)); err != nil {
		return err
	}
	p.conn.SetReadDeadline(time.Now().Add(12 * time.Second))
	if b, err := p.in.ReadByte(); err == nil || err == io.EOF {
		return fmt.Errorf("while idle: got %#x, %v", b, err)
	}
	if err := p.write(release(0, "idle")); err != nil {
		return err
	}
	_, err := p.want('N', 0, "idle")
	return err
}

// TestByteASecond: clients that send a byte a second are turned away after
// the progress timeout, while others are served.
func TestByteASecond(t *testing.T) {
	const slow = 150
	onLoopsParallel(t, func(t *testing.T, s *server) {
		stop := s.keepServing(t, 2)
		frame := acquire(1, 0, 250, text(128))
		together(t, slow, func(i int) error {
			time.Sleep(time.Duration(i) * 5 * time.Millisecond)
			p, err := s.tryDial(t, 0)
			if err != nil {
				return err
			}
			defer p.close()
			sent, wrote, err := p.timedWrite(frame[:1])
			if err != nil {
				return err
			}
			go func() {
				for _, b := range frame[1:] {
					time.Sleep(time.Second)
					if p.write([]byte{b}) != nil {
						return
					}
				}
			}()
			return p.timesOut(sent, wrote)
		})
		stop()
	})
}
