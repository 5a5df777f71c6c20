package sim

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run the one schedule of this seed")
	schedules = flag.Int("schedules", 0, "run this many schedules, of new seeds; 0: those of `make test`")
)

const seedsFile = "testdata/seeds"

// ordinary is how many schedules an ordinary run has, with the seeds 1, 2, ...
func ordinary() uint64 {
	if raceEnabled {
		return 25
	}
	return 300
}

// runSeed runs one schedule.
func runSeed(seed uint64, wrong mistakes) (w *world, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			if *seedFlag != 0 {
				panic(p)
			}
		}
	}()
	w = newWorld(seed, wrong)
	return w, w.run()
}

// keptSeeds are those of schedules that failed once.
func keptSeeds(t *testing.T) (seeds []uint64) {
	t.Helper()
	data, err := os.ReadFile(seedsFile)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		text, _, _ := strings.Cut(line, "#")
		if text = strings.TrimSpace(text); text != "" {
			seed, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			seeds = append(seeds, seed)
		}
	}
	return seeds
}

// Whatever fails, no client is told what is or becomes untrue.
func TestSchedules(t *testing.T) {
	seeds := keptSeeds(t)
	switch {
	case *seedFlag != 0:
		seeds = []uint64{*seedFlag}
	case *schedules != 0:
		first := uint64(time.Now().UnixNano())
		for i := range *schedules {
			seeds = append(seeds, first+uint64(i))
		}
	default:
		for i := range ordinary() {
			seeds = append(seeds, i+1)
		}
	}
	grants, answers := 0, 0
	began := time.Now()
	for _, seed := range seeds {
		w, err := runSeed(seed, mistakes{})
		if err != nil {
			t.Errorf("seed %d: %v; add it to %s and run with -seed %d", seed, err, seedsFile, seed)
		}
		if w != nil {
			grants += w.judge.grants
			answers += w.judge.answers
		}
	}
	t.Logf("%d schedules, %d grants, %d answers in %v", len(seeds), grants, answers, time.Since(began).Round(time.Millisecond))
	if *seedFlag == 0 && grants < 20*len(seeds) {
		t.Errorf("%d grants in %d schedules: nothing is tried", grants, len(seeds))
	}
}

// A run depends on nothing but its seed.
func TestScheduleIsRepeatable(t *testing.T) {
	one, err := runSeed(7, mistakes{})
	if err != nil {
		t.Fatal(err)
	}
	two, err := runSeed(7, mistakes{})
	if err != nil {
		t.Fatal(err)
	}
	if one.events != two.events || one.judge.greatest != two.judge.greatest || one.judge.answers != two.judge.answers {
		t.Errorf("%d and %d events, tokens up to %d and %d, %d and %d answers", one.events, two.events,
			one.judge.greatest, two.judge.greatest, one.judge.answers, two.judge.answers)
	}
}

// Each mistake that a cluster could have is noticed by some schedule.
func TestMistakesAreNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		wrong mistakes
		from  uint64 // the seed to begin with: not far before one that shows it
	}{
		"answers before commit":              {mistakes{answerBeforeCommit: true}, 1},
		"a new leader gives no full leases":  {mistakes{leasesGoOn: true}, 1},
		"expiry without a look at the token": {mistakes{expireAnyToken: true}, 1},
		"N and T without proof of the lead":  {mistakes{readWithoutProof: true, cutsOnly: true}, 25},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := c.from; seed < c.from+2000; seed++ {
				if _, err := runSeed(seed, c.wrong); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("no schedule noticed")
		})
	}
}
