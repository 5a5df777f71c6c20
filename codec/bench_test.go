package codec

import (
	"strings"
	"testing"
)

// benchKeys are keys of a typical length (24 bytes), and around it.
var benchKeys = []struct{ name, key string }{
	{"key=8", "order/42"},
	{"key=24", "tenant-0042/invoice-9001"},
	{"key=64", strings.Repeat("tenant-0042/invo", 4)},
	{"key=128", strings.Repeat("tenant-0042/invo", 8)},
	{"key=24,utf8", "заказ-0042/счёт"[:24]},
	{"key=24,tab", "tenant-0042\tinvoice-9001"},
}

// BenchmarkParseRequest reads a buffer full of pipelined frames; an operation
// is one frame.
func BenchmarkParseRequest(b *testing.B) {
	const frames = 64
	for _, k := range benchKeys {
		var acquires, releases, mixed []byte
		for i := range uint64(frames) {
			acquires = AppendAcquire(acquires, i, 30, 30, k.key)
			releases = AppendRelease(releases, i, k.key)
			if i%2 == 0 {
				mixed = AppendAcquire(mixed, i, 30, 30, k.key)
			} else {
				mixed = AppendRelease(mixed, i, k.key)
			}
		}
		for _, kind := range []struct {
			name   string
			stream []byte
		}{{"acquire", acquires}, {"release", releases}, {"mixed", mixed}} {
			b.Run(kind.name+"/"+k.name, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(kind.stream) / frames))
				var r Request
				rest := kind.stream
				for b.Loop() {
					n, reason := ParseRequest(rest, &r)
					if n == 0 {
						b.Fatal(reason)
					}
					if rest = rest[n:]; len(rest) == 0 {
						rest = kind.stream
					}
				}
			})
		}
	}
}

// BenchmarkParseRequestAlone reads a frame behind which nothing has arrived.
func BenchmarkParseRequestAlone(b *testing.B) {
	for _, k := range benchKeys {
		frame := AppendAcquire(nil, 7, 30, 30, k.key)
		b.Run(k.name, func(b *testing.B) {
			b.ReportAllocs()
			var r Request
			for b.Loop() {
				if n, reason := ParseRequest(frame, &r); n != len(frame) {
					b.Fatal(n, reason)
				}
			}
		})
	}
}

func BenchmarkParseReply(b *testing.B) {
	for _, k := range benchKeys {
		frame := AppendGranted(nil, 9, 7, k.key)
		b.Run(k.name, func(b *testing.B) {
			b.ReportAllocs()
			var r Reply
			for b.Loop() {
				if n, err := ParseReply(frame, &r); n != len(frame) {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// BenchmarkAppend fills a buffer of 64 frames and begins again, as a turn does.
func BenchmarkAppend(b *testing.B) {
	key := []byte(benchKeys[1].key)
	for _, bench := range []struct {
		name   string
		append func(dst []byte, id uint64) []byte
	}{
		{"acquire", func(dst []byte, id uint64) []byte { return AppendAcquire(dst, id, 30, 30, key) }},
		{"release", func(dst []byte, id uint64) []byte { return AppendRelease(dst, id, key) }},
		{"granted", func(dst []byte, id uint64) []byte { return AppendGranted(dst, id, id, key) }},
		{"timeout", func(dst []byte, id uint64) []byte { return AppendTimeout(dst, id, key) }},
		{"released", func(dst []byte, id uint64) []byte { return AppendReleased(dst, id, key) }},
		{"error", func(dst []byte, _ uint64) []byte { return AppendError(dst, ReasonShuttingDown) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			dst := make([]byte, 0, 64*MaxGranted)
			id := uint64(1)
			for b.Loop() {
				if id++; id%64 == 0 {
					dst = dst[:0]
				}
				dst = bench.append(dst, id)
			}
		})
	}
}

func BenchmarkCheckKey(b *testing.B) {
	for _, k := range benchKeys {
		b.Run(k.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !CheckKey(k.key) {
					b.Fatal("legal key refused")
				}
			}
		})
	}
}
