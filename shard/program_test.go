package shard

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestPrograms runs random programs against the model. Their bytes are as
// random as they come: rapid's own prefer small ones, and so few commands. A
// program that fails is printed for testdata.
func TestPrograms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		program := make([]byte, rapid.IntRange(0, 3000).Draw(t, "bytes"))
		for i := range program {
			program[i] = byte(random.Uint32())
		}
		run(t, program)
	})
}

// FuzzPrograms runs what the fuzzer makes up; its seeds are regressions.
func FuzzPrograms(f *testing.F) {
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) < 4096 {
			run(t, program)
		}
	})
}
