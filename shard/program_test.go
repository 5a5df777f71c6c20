package shard

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// randomProgram returns a program whose bytes are as random as they come.
func randomProgram(seed uint64, length int) []byte {
	random := rand.New(rand.NewPCG(seed, 0))
	program := make([]byte, length)
	for i := range program {
		program[i] = byte(random.Uint32())
	}
	return program
}

// TestPrograms runs random programs against the model. Rapid draws only their
// seed and length: its own bytes are mostly small, and so of few commands. A
// program that fails is printed up to where it failed.
func TestPrograms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		length := rapid.IntRange(0, 3000).Draw(t, "length")
		run(t, randomProgram(seed, length), rapid.Bool().Draw(t, "journal"))
	})
}

// FuzzPrograms runs what the fuzzer makes up. A program that failed once goes to
// testdata, and is run with the tests from then on.
func FuzzPrograms(f *testing.F) {
	for seed := range uint64(16) {
		f.Add(randomProgram(seed, 300))
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) < 4096 {
			run(t, program, false)
			run(t, program, true)
		}
	})
}
