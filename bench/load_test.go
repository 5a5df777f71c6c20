package bench

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Attempts are due at even distances, whatever happened before, and the parts of
// several threads make up the whole.
func TestSchedule(t *testing.T) {
	const rate, threads = 3000.0, 4
	var all []int64
	for i := range threads {
		s := newSchedule(1000, rate, i, threads)
		for range 500 {
			all = append(all, s.due())
			s.n++
		}
	}
	slices.Sort(all)
	for i, due := range all {
		if want := 1000 + float64(i)*1e9/rate; math.Abs(float64(due)-want) > 1 {
			t.Fatalf("attempt %d is due at %d, want %.1f", i, due, want)
		}
	}
	// No error adds up: a day later the schedule is still right.
	s := newSchedule(0, 1e6, 0, 1)
	s.n = 86_400 * 1_000_000
	if s.due() != int64(24*time.Hour) {
		t.Errorf("after a day %d", s.due())
	}
}

func TestScheduleMissed(t *testing.T) {
	for _, c := range []struct{ n, before, want int64 }{
		{0, 0, 0}, {0, 99, 0}, {0, 100, 0}, {0, 101, 1}, {0, 110, 1}, {0, 111, 2}, {0, 200, 10}, {0, 201, 11}, {5, 201, 6}, {20, 201, 0},
	} {
		s := newSchedule(100, 1e8, 0, 1) // one every 10 ns
		s.n = c.n
		if got := s.missed(c.before); got != c.want {
			t.Errorf("%d begun, before %d: %d missed, want %d", c.n, c.before, got, c.want)
		}
	}
}

// The keys of each distribution come as often as they should: within six
// standard deviations of it.
func TestDraw(t *testing.T) {
	const keys, draws = 50, 400_000
	even := slices.Repeat([]float64{1.0 / keys}, keys)
	for dist, chances := range map[Dist][]float64{Uniform: even, Zipf: zipfWeights(keys)} {
		d, random := newDraw(dist, keys), rand.NewPCG(7, 9)
		seen := make([]float64, keys)
		for range draws {
			seen[d.next(random)]++
		}
		for i, p := range chances {
			if off := math.Abs(seen[i] - draws*p); off > 6*math.Sqrt(draws*p*(1-p)) {
				t.Errorf("%s: key %d came %.0f times, want %.0f", dist, i, seen[i], draws*p)
			}
		}
	}
	weights := zipfWeights(1000)
	if ratio := weights[0] / weights[9]; math.Abs(ratio-math.Pow(10, 0.99)) > 1e-9 {
		t.Errorf("the first key is wanted %v times as often as the tenth", ratio)
	}
	d, random := newDraw(Single, 1000), rand.NewPCG(7, 9)
	for range 100 {
		if d.next(random) != 0 {
			t.Fatal("single draws several keys")
		}
	}
}

func TestKeys(t *testing.T) {
	for _, c := range []struct{ n, size int }{{1, 1}, {64, 1}, {65, 2}, {4096, 2}, {4097, 3}, {100_000, 24}, {1000, 128}, {MaxKeys, 4}} {
		k := newKeySet(c.n, c.size, rand.New(rand.NewPCG(1, uint64(c.n))))
		seen := map[string]bool{}
		for i := 0; i < c.n; i += max(1, c.n/5000) {
			name := k.appendKey([]byte("x"), uint32(i))[1:]
			if len(name) != c.size || seen[string(name)] {
				t.Fatalf("%+v: key %d is %q", c, i, name)
			}
			seen[string(name)] = true
			if !k.is(name, uint32(i)) || i > 0 && k.is(name, uint32(i-1)) || k.is(name[1:], uint32(i)) || k.is(append(slices.Clone(name), 'A'), uint32(i)) {
				t.Fatalf("%+v: key %d is not told from others", c, i)
			}
			for at := range name {
				other := slices.Clone(name)
				other[at] ^= 1
				if k.is(other, uint32(i)) {
					t.Fatalf("%+v: %q passes for %q", c, other, name)
				}
			}
		}
	}
}

// The table of releases is compared with a map of all that is in it.
func TestReleaseTable(t *testing.T) {
	names := newKeySet(3, 8, rand.New(rand.NewPCG(1, 2)))
	for _, size := range []int{1, 2, 7, 64} {
		random := rand.New(rand.NewPCG(3, uint64(size)))
		slots, table := make([]slot, size), newReleaseTable(size)
		in := map[uint16]bool{}
		for step := range 20_000 {
			i := uint16(random.IntN(size))
			if !in[i] {
				slots[i].token = 1 + uint64(random.IntN(3*size)) // some are there twice
				slots[i].key = uint32(random.IntN(3))
				table.add(slots, i)
				in[i] = true
				continue
			}
			got := table.take(slots, slots[i].token, names, names.appendKey(nil, slots[i].key))
			if got < 0 || !in[uint16(got)] || slots[got].token != slots[i].token || slots[got].key != slots[i].key {
				t.Fatalf("%d slots, step %d: slot %d is not found: %d", size, step, i, got)
			}
			delete(in, uint16(got))
			if missing := table.take(slots, 1<<40, names, names.appendKey(nil, 0)); missing != -1 {
				t.Fatalf("a token that is not there is in slot %d", missing)
			}
			if other := table.take(slots, slots[i].token, names, []byte("another")); other != -1 {
				t.Fatalf("a key that is not there is in slot %d", other)
			}
		}
	}
}

func TestRing(t *testing.T) {
	var r ring[int]
	var model []int
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 10_000 {
		if random.IntN(2*max(i%200, 1)) < 100 {
			r.push(i)
			model = append(model, i)
		} else if item, ok := r.pop(); ok != (len(model) > 0) || ok && item != model[0] {
			t.Fatalf("%v %v, want the first of %v", item, ok, model)
		} else if ok {
			model = model[1:]
		}
		if r.len() != len(model) || r.len() > 0 && *r.front() != model[0] {
			t.Fatalf("%d items, want %v", r.len(), model)
		}
	}
}

// Every limit of a configuration, on both sides.
func TestValidate(t *testing.T) {
	set := map[string]func(c *Config, v int64){
		"Connections": func(c *Config, v int64) { c.Connections = int(v) },
		"Pipeline":    func(c *Config, v int64) { c.Pipeline = int(v) },
		"Threads":     func(c *Config, v int64) { c.Threads = int(v) },
		"Keys":        func(c *Config, v int64) { c.Keys = int(v) },
		"KeySize":     func(c *Config, v int64) { c.Keys, c.KeySize = 64, int(v) },
		"Ops":         func(c *Config, v int64) { c.Duration, c.Ops = 0, v },
		"Wait":        func(c *Config, v int64) { c.Wait = time.Duration(v) * time.Second },
		"Lease":       func(c *Config, v int64) { c.Lease = time.Duration(v) * time.Second },
		"Hold":        func(c *Config, v int64) { c.Hold = time.Duration(v) },
		"Duration":    func(c *Config, v int64) { c.Duration = time.Duration(v) },
		"Warmup":      func(c *Config, v int64) { c.Warmup = time.Duration(v) },
		"Patience":    func(c *Config, v int64) { c.Patience = time.Duration(v) },
		"Rate":        func(c *Config, v int64) { c.Rate = float64(v) },
	}
	day := int64(24 * time.Hour)
	for _, c := range []struct {
		field     string
		low, high int64
	}{
		{"Connections", 1, 8192}, {"Pipeline", 1, 4096}, {"Threads", 1, 64}, {"Keys", 1, 4 << 20}, {"KeySize", 1, 128},
		{"Ops", 1, 1e12}, {"Wait", 0, 255}, {"Lease", 1, 250}, {"Hold", 0, day}, {"Duration", 1, day}, {"Warmup", 0, day},
		{"Patience", ms, day}, {"Rate", 0, 50e6},
	} {
		for _, v := range []int64{c.low - 1, c.low, c.high, c.high + 1} {
			cfg := Defaults()
			cfg.Addrs, cfg.Duration = []string{"a:1"}, time.Second
			set[c.field](&cfg, v)
			err := cfg.Validate()
			var bad *ConfigError
			if allowed := c.low <= v && v <= c.high; (err == nil) != allowed || err != nil && !errors.As(err, &bad) {
				t.Errorf("%s = %d: %v", c.field, v, err)
			}
		}
	}
	for what, change := range map[string]func(*Config){
		"no address":            func(c *Config) { c.Addrs = nil },
		"both durations":        func(c *Config) { c.Ops = 5 },
		"no duration":           func(c *Config) { c.Duration = 0 },
		"a part of a second":    func(c *Config) { c.Wait = 1500 * time.Millisecond },
		"an unknown dist":       func(c *Config) { c.Dist = "normal" },
		"keys that are too few": func(c *Config) { c.Keys, c.KeySize = 65, 1 },
		"no number":             func(c *Config) { c.Rate = math.NaN() },
	} {
		cfg := Defaults()
		cfg.Addrs, cfg.Duration = []string{"a:1"}, time.Second
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&cfg)
		if _, err := Run(t.Context(), cfg); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

func TestInterval(t *testing.T) {
	for duration, want := range map[time.Duration]time.Duration{
		time.Second: 100 * time.Millisecond, 10 * time.Second: 100 * time.Millisecond, 30 * time.Second: 300 * time.Millisecond,
		10 * time.Minute: time.Second, time.Hour: 6 * time.Second,
	} {
		if got := (&Config{Duration: duration}).interval(); got != want {
			t.Errorf("%v: %v, want %v", duration, got, want)
		}
	}
}
