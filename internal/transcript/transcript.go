// Package transcript keeps what a process writes while a test reads it. It
// starts no process and judges nothing; tests that run real processes use it.
package transcript

import (
	"bytes"
	"sync"
)

// Buffer gathers what is written to it. Its zero value is empty and ready; it is
// safe for any number of goroutines.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends p. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String returns all that was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
