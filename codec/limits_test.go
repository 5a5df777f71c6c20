package codec

import (
	"strings"
	"testing"
)

// TestLargestFrames holds the sizes of §1.2 against frames.
func TestLargestFrames(t *testing.T) {
	key := strings.Repeat("k", MaxKey)
	for _, c := range []struct {
		name        string
		frame       []byte
		limit, want int
	}{
		{"request A", AppendAcquire(nil, 1, 255, 250, key), MaxAcquire, 140},
		{"request R", AppendRelease(nil, 1, key), MaxRelease, 138},
		{"reply A", AppendGranted(nil, 1, 1, key), MaxGranted, 146},
	} {
		if len(c.frame) != c.want || c.limit != c.want {
			t.Errorf("%s: %d bytes, limit %d, want %d", c.name, len(c.frame), c.limit, c.want)
		}
	}
	if got := len(AppendMoved(nil, strings.Repeat("a", MaxText))); got != MaxFrame+1 {
		t.Errorf("the longest text makes a frame of %d bytes with its '\\n', want %d", got, MaxFrame+1)
	}
}

// TestNoAllocations: every outcome of the parsers and every appender with room.
func TestNoAllocations(t *testing.T) {
	long := strings.Repeat("k", MaxKey)
	var streams [][]byte
	for _, c := range requestCases() {
		streams = append(streams, []byte(c.in))
	}
	var replies [][]byte
	for _, c := range replyCases() {
		replies = append(replies, []byte(c.in))
	}
	keys := keyCases()
	dst := make([]byte, 0, 8*MaxGranted)
	var request Request
	var reply Reply
	var sink int
	for _, c := range []struct {
		name string
		run  func()
	}{
		{"ParseRequest", func() {
			for _, in := range streams {
				n, _ := ParseRequest(in, &request)
				sink += n
			}
		}},
		{"ParseReply", func() {
			for _, in := range replies {
				n, _ := ParseReply(in, &reply)
				sink += n
			}
		}},
		{"CheckKey", func() {
			for _, key := range keys {
				if CheckKey(key.key) {
					sink++
				}
			}
		}},
		{"ParseReason", func() {
			for r := ReasonNone; r <= ReasonShuttingDown; r++ {
				if _, ok := ParseReason(r.String()); ok {
					sink++
				}
			}
		}},
		{"appenders", func() {
			b := AppendAcquire(dst, 1, 1, 1, long)
			b = AppendRelease(b, 1, long)
			b = AppendGranted(b, 1, 1, long)
			b = AppendTimeout(b, 1, long)
			b = AppendReleased(b, 1, long)
			b = AppendMoved(b, "127.0.0.1:7400")
			b = AppendError(b, ReasonShuttingDown)
			sink += len(b)
		}},
	} {
		if allocs := testing.AllocsPerRun(20, c.run); allocs != 0 {
			t.Errorf("%s: %v allocations", c.name, allocs)
		}
	}
	_ = sink
}
