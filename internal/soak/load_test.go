package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"ticketing/auth"
	"ticketing/bench"
	"ticketing/codec"
)

// verified loads the server by package bench, run after run, each of another
// kind. A connection of it that ends, and an answer that is missing, is wrong.
func (s *server) verified(ctx context.Context, j *judge, connections int) {
	for n := 0; ctx.Err() == nil; n++ {
		cfg := bench.Defaults()
		cfg.Addrs, cfg.Secret = []string{s.addr}, []byte(secret)
		cfg.Connections, cfg.Pipeline, cfg.Patience = connections, 2, patience
		cfg.Keys, cfg.Dist = connections, []bench.Dist{bench.Zipf, bench.Uniform, bench.Single}[n%3]
		cfg.Wait, cfg.Lease, cfg.Hold = 2*time.Second, 5*time.Second, 20*time.Millisecond
		cfg.Warmup, cfg.Duration, cfg.Rate = 0, 30*time.Second, float64(max(connections/2, 100))
		if s.authority != nil {
			cfg.TLS = s.authority.client
		}
		if n%2 == 1 { // leases end
			cfg.Lease, cfg.Hold = time.Second, 1200*time.Millisecond
		}
		cfg.Progress = func(bench.Progress) { s.loaded.Store(true) }
		r, err := bench.Run(ctx, cfg)
		s.loaded.Store(false)
		if r == nil {
			j.count("verified runs without connections") // it dialled while there were no descriptors
			if err != nil && !errors.Is(err, bench.ErrNoSession) && ctx.Err() == nil {
				j.object("bench: %v", err)
			}
			pause(ctx, 100*time.Millisecond)
			continue
		}
		j.count("verified runs")
		for _, v := range r.Violations {
			j.object("%v", v)
		}
		if r.Indeterminate > 0 {
			j.object("connections of well-behaved clients ended: %+v, %v", r.Ends, err)
		}
	}
}

// guest is a kind of client that comes and goes, a function that is run again and
// again.
type guest struct {
	name  string
	share int // of them at once, of a hundred
	visit func(s *server, j *judge, random *rand.Rand) error
}

var guests = []guest{
	{"lockers", 50, (*server).locker},
	{"passers-by", 9, (*server).passerBy},
	{"babblers", 10, (*server).babbler},
	{"intruders", 8, (*server).intruder},
	{"strangers", 3, (*server).stranger},
	{"slow readers", 5, (*server).slowReader},
	{"silent", 15, (*server).silent},
}

// host runs one guest until the soak is over.
func (s *server) host(ctx context.Context, j *judge, name string, visit func(*server, *judge, *rand.Rand) error, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 7))
	for ctx.Err() == nil {
		short := s.shortSince()
		switch err := visit(s, j, random); {
		case errors.Is(err, errShort):
			j.count(name + " turned away")
			if !short() {
				j.object("%s: turned away while there were descriptors", name)
			}
			pause(ctx, 50*time.Millisecond)
		case err != nil:
			j.object("%s: %v", name, err)
		default:
			j.count(name)
		}
	}
}

// attempt is one acquire of a locker.
type attempt struct {
	key         string
	wait, lease time.Duration
	floor       uint64
	sent        time.Time
}

// locker queues several attempts for keys that all lockers want, gives up some
// of what it gets, and leaves in one way or another.
func (s *server) locker(j *judge, random *rand.Rand) error {
	c, err := s.login()
	if err != nil {
		return err
	}
	defer c.Close()
	short := s.shortSince()
	open, releases := map[uint64]attempt{}, map[uint64]time.Time{}
	for turn := range 1 + random.IntN(4) {
		for range 1 + random.IntN(3) {
			owner := random.Uint64()
			a := attempt{key: fmt.Sprint("guest-", random.IntN(40)), wait: time.Duration(random.IntN(3)) * time.Second,
				lease: time.Duration(1+random.IntN(3)) * time.Second}
			a.floor, a.sent = j.asks()
			open[owner] = a
			if _, err := c.Write(codec.AppendAcquire(nil, owner, uint8(a.wait/time.Second), uint8(a.lease/time.Second), a.key)); err != nil {
				return fmt.Errorf("writing: %w", err)
			}
		}
		switch leave := random.IntN(20); {
		case leave == 0:
			c.reset()
			return nil
		case leave == 1:
			if random.IntN(2) == 0 {
				c.tcp.Close()
			}
			return nil
		case leave < 4:
			c.halfClose(random) // what waits is given up; what is decided still comes
			err := s.answers(c, j, open, releases, random, true)
			if errors.Is(err, errLost) && short() {
				j.count("half-closed in a shortage, answers lost")
				err = nil
			}
			return err
		}
		if err := s.answers(c, j, open, releases, random, false); err != nil {
			return fmt.Errorf("turn %d: %w", turn, err)
		}
	}
	return nil
}

var errLost = errors.New("no answer")

// answers reads until all is answered, or to the end of a half-closed connection.
func (s *server) answers(c *client, j *judge, open map[uint64]attempt, releases map[uint64]time.Time, random *rand.Rand, half bool) error {
	for half || len(open)+len(releases) > 0 {
		_ = c.SetDeadline(time.Now().Add(patience))
		r, err := c.next()
		if half && (err == io.EOF || err == errCut) {
			for _, a := range open {
				if a.wait == 0 {
					return fmt.Errorf("%w: half-closed, %s", errLost, a.key)
				}
			}
			if err == errCut {
				return fmt.Errorf("%w: half-closed, %v", errLost, err)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("%d attempts and %d releases of %v are not answered: %w", len(open), len(releases), c.LocalAddr(), err)
		}
		a, asked := open[r.Owner]
		until, released := releases[r.Token]
		switch {
		case r.Op == codec.OpGranted && asked && a.key == string(r.Text):
			delete(open, r.Owner)
			j.granted(a.key, r.Token, a.floor, a.sent, a.lease)
			if !half && random.IntN(8) > 0 {
				releases[r.Token] = j.givesUp(a.key, r.Token)
				_, err = c.Write(codec.AppendRelease(nil, r.Token, a.key))
			}
		case r.Op == codec.OpTimeout && asked && a.key == string(r.Text):
			delete(open, r.Owner)
			if d := time.Since(a.sent); d < a.wait-a.wait/clockDrift {
				err = fmt.Errorf("a wait of %v ended after %v", a.wait, d)
			}
		case r.Op == codec.OpReleased && released:
			delete(releases, r.Token)
		case r.Op == codec.OpNotHeld && released:
			delete(releases, r.Token)
			if time.Now().Before(until) {
				err = fmt.Errorf("token %d is not held before its lease has ended", r.Token)
			}
		default:
			err = fmt.Errorf("unmatched %c %q, owner %d, token %d", r.Op, r.Text, r.Owner, r.Token)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// passerBy logs in, asks one thing and goes.
func (s *server) passerBy(_ *judge, _ *rand.Rand) error {
	c, err := s.login()
	if err != nil {
		return err
	}
	defer c.Close()
	return c.asks()
}

// asks asks one thing and wants the answer.
func (c *client) asks() error {
	if _, err := c.Write(codec.AppendRelease(nil, 1<<63, "nobody's")); err != nil {
		return err
	}
	if r, err := c.next(); err != nil || r.Op != codec.OpNotHeld {
		return fmt.Errorf("got %c, %v", r.Op, err)
	}
	return nil
}

// babbler sends frames that are wrong after some that are right.
func (s *server) babbler(_ *judge, random *rand.Rand) error {
	c, err := s.login()
	if err != nil {
		return err
	}
	defer c.Close()
	var b []byte
	good := random.IntN(3)
	for i := range good {
		b = codec.AppendRelease(b, 1<<62+uint64(i), "nobody's")
	}
	wrong := []struct{ bytes, reason string }{
		{"X", "bad_op"}, {"A\x00\x0000000000k\n", "bad_lease"}, {"R00000000a b\n", "bad_key"},
		{"R" + strings.Repeat("x", 250), "line_too_long"}, {"R123", "bad_request"}, {"R00000000\xff\n", "bad_key"},
	}[random.IntN(6)]
	b = append(b, wrong.bytes...)
	for len(b) > 0 {
		n := 1 + random.IntN(len(b))
		if _, err := c.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	if wrong.reason == "bad_request" {
		c.halfClose(random)
	}
	for range good {
		if r, err := c.next(); err != nil || r.Op != codec.OpNotHeld {
			return fmt.Errorf("before E %s: %c, %v", wrong.reason, r.Op, err)
		}
	}
	return c.ends(wrong.reason)
}

// ends wants an E and then the end.
func (c *client) ends(reason string) error {
	if r, err := c.next(); err != nil || r.Op != codec.OpError || string(r.Text) != reason {
		return fmt.Errorf("got %c %q, %v, want E %s", r.Op, r.Text, err, reason)
	}
	if r, err := c.next(); err != io.EOF {
		return fmt.Errorf("behind E %s: %c, %v", reason, r.Op, err)
	}
	return nil
}

// intruder has a wrong secret, or no idea of the handshake.
func (s *server) intruder(_ *judge, random *rand.Rand) error {
	c, nonce, err := s.dial(dialer)
	if err != nil {
		return err
	}
	defer c.Close()
	line, reason := auth.AppendResponse(nil, []byte("guessed"), nonce), "auth_failed"
	if random.IntN(3) == 0 {
		line, reason = []byte(strings.Repeat("x", 256)), "line_too_long"
	}
	if _, err := c.Write(append(line, "A behind it"...)); err != nil {
		return err
	}
	return c.ends(reason)
}

// slowReader asks for long answers and does not read them until it is closed.
func (s *server) slowReader(_ *judge, random *rand.Rand) error {
	c, err := s.loginWith(slowDialer, secret)
	if err != nil {
		return err
	}
	defer c.Close()
	key := strings.Repeat("s", codec.MaxKey)
	var b []byte
	for range 64 {
		b = codec.AppendRelease(b, random.Uint64()|1<<63, key)
	}
	begin := time.Now()
	for n := 0; ; n++ {
		if _, err := c.Write(b); errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("not closed: %w, after %d writes since %v", err, n, begin.Format(time.TimeOnly))
		} else if err != nil {
			return nil // closed, as it must be
		}
	}
}

// silent connects and says nothing until the server is tired of it.
func (s *server) silent(_ *judge, _ *rand.Rand) error {
	begin := time.Now()
	c, _, err := s.dial(dialer)
	if err != nil {
		return err
	}
	defer c.Close()
	defer closeWith(s.ctx, c.tcp)()
	end := io.EOF
	if s.authority != nil {
		end = errCut
	}
	_, err = c.in.ReadByte()
	return s.tired(begin, err, end)
}

// killed starts processes that lock and wait, and kills them.
func (s *server) killed(ctx context.Context, j *judge, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 8))
	for ctx.Err() == nil {
		cmd := exec.Command(s.binary, "bench", "--addr="+s.addr, "--secret-file="+s.file("client"), "--connections=20",
			"--pipeline=4", "--keys=30", "--wait=20s", "--lease=2s", "--hold=100ms", "--duration=1m")
		if s.authority != nil {
			cmd.Args = append(cmd.Args, "--tls-ca="+s.file("authority"))
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			j.object("%v", err)
			return
		}
		pause(ctx, time.Duration(1000+random.IntN(3000))*time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		j.count("killed processes")
	}
}
