package codec

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// replyCase is one frame and its outcome: an error, "frame" for one that takes
// up all of in, or "more".
type replyCase struct {
	name, in string
	want     any
}

func replyCases() []replyCase {
	k := func(n int) string { return strings.Repeat("k", n) }
	const zero = "\x00\x00\x00\x00\x00\x00\x00\x00"
	cases := []replyCase{
		{"nothing", "", "more"},
		{"keep-alive is a request's", "\n", ErrReplyOp},
		{"unknown op", "X", ErrReplyOp},
		{"op in lower case", "e", ErrReplyOp},

		{"granted op alone", "A", "more"},
		{"granted header", "A" + number + number, "more"},
		{"granted header of newlines", "A" + newlines + newlines, "more"},
		{"granted header of newlines and key", "A" + newlines + newlines + "k\n", "frame"},
		{"granted with token 0", "A" + zero + number + "k\n", ErrReplyToken},
		{"granted with token 0 and a bad key", "A" + zero + number + "\n", ErrReplyToken},
		{"granted with token 1", "A" + zero[:7] + "\x01" + number + "k\n", "frame"},
		{"granted with owner 0", "A" + number + zero + "k\n", "frame"},
		{"granted with token 0 is not seen before it is whole", "A" + zero + number + "k", "more"},
		{"not held with token 0", "N" + zero + "k\n", "frame"},
		{"timeout for owner 0", "T" + zero + "k\n", "frame"},

		{"moved", "M127.0.0.1:7400\n", "frame"},
		{"moved to nowhere", "M\n", "frame"},
		{"moved op alone", "M", "more"},
		{"leadership lost", "L[::1]:7400\n", "frame"},
		{"error", "Ebad_key\n", "frame"},
		{"error with a reason of nobody's", "Esomething else\n", "frame"},
		{"error not whole", "Ebad_key", "more"},
		{"error that is not text", "E\xff\xfe\n", "frame"},
	}
	for _, head := range []string{"A" + number + newlines, "T" + newlines, "B" + number, "R" + newlines, "N" + number, "M", "L", "E"} {
		room, whole := 192-len(head), any("frame")
		if len(head) > 1 {
			whole = ErrReplyKey
		}
		cases = append(cases,
			replyCase{head[:1] + ", 191 bytes", head + k(room-1) + "\n", whole},
			replyCase{head[:1] + ", 192 bytes so far", head + k(room), "more"},
			replyCase{head[:1] + ", 192 bytes", head + k(room) + "\n", whole},
			replyCase{head[:1] + ", 193 bytes so far", head + k(room+1), ErrReplyTooLong},
			replyCase{head[:1] + ", 193 bytes", head + k(room+1) + "\n", ErrReplyTooLong},
			replyCase{head[:1] + ", 193 bytes of another script", head + strings.Repeat("é", 97), ErrReplyTooLong})
		if len(head) == 1 {
			continue
		}
		for _, key := range keyCases() {
			c := replyCase{head[:1] + ", key " + key.name, head + key.key + "\n", "frame"}
			if !key.legal {
				c.want = ErrReplyKey
			}
			cases = append(cases, c)
		}
	}
	return cases
}

func TestReply(t *testing.T) {
	before := "Ebad_op\nA" + number + newlines + "before\n" + "N" + newlines + "before\n"
	for _, c := range replyCases() {
		t.Run(c.name, func(t *testing.T) {
			var r Reply
			n, err := ParseReply([]byte(c.in), &r)
			var got any = err
			if err == nil {
				got = map[bool]string{true: "frame", false: "more"}[n == len(c.in) && n > 0]
			}
			if got != c.want || (got != "frame" && n != 0) {
				t.Errorf("%q is %v (n=%d), want %v", c.in, got, n, c.want)
			}
			checkReplies(t, []byte(c.in))
			checkReplies(t, []byte(before+c.in))
			checkReplies(t, []byte(before+c.in+before))
		})
	}
}

// TestReplyOps: as in a request, an op is judged as soon as its byte is there.
func TestReplyOps(t *testing.T) {
	for c := range 256 {
		var want error
		if !strings.ContainsRune("ATBRNMLE", rune(c)) {
			want = ErrReplyOp
		}
		var r Reply
		if n, err := ParseReply([]byte{byte(c)}, &r); n != 0 || !errors.Is(err, want) {
			t.Errorf("op %q: n=%d %v, want %v", byte(c), n, err, want)
		}
	}
}

// TestAppend holds every appender against bytes written by hand.
func TestAppend(t *testing.T) {
	const id, other = 0x0102030405060708, 0xfffefdfcfb0a0001
	const text, otherText = "\x01\x02\x03\x04\x05\x06\x07\x08", "\xff\xfe\xfd\xfc\xfb\x0a\x00\x01"
	for _, c := range []struct {
		name string
		got  func(dst []byte) []byte
		want string
	}{
		{"acquire", func(dst []byte) []byte { return AppendAcquire(dst, id, 0, 250, "key") }, "A\x00\xfa" + text + "key\n"},
		{"release", func(dst []byte) []byte { return AppendRelease(dst, other, "key") }, "R" + otherText + "key\n"},
		{"granted", func(dst []byte) []byte { return AppendGranted(dst, id, other, "key") }, "A" + text + otherText + "key\n"},
		{"timeout", func(dst []byte) []byte { return AppendTimeout(dst, other, "key") }, "T" + otherText + "key\n"},
		{"busy", func(dst []byte) []byte { return AppendBusy(dst, id, "key") }, "B" + text + "key\n"},
		{"released", func(dst []byte) []byte { return AppendReleased(dst, id, "key") }, "R" + text + "key\n"},
		{"not held", func(dst []byte) []byte { return AppendNotHeld(dst, 0, "key") }, "N\x00\x00\x00\x00\x00\x00\x00\x00key\n"},
		{"moved", func(dst []byte) []byte { return AppendMoved(dst, "host:7400") }, "Mhost:7400\n"},
		{"leadership lost", func(dst []byte) []byte { return AppendLeadershipLost(dst, "host:7400") }, "Lhost:7400\n"},
		{"error", func(dst []byte) []byte { return AppendError(dst, ReasonLineTooLong) }, "Eline_too_long\n"},
	} {
		if got := string(c.got(nil)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		for room := range len(c.want) + 2 {
			dst := append(make([]byte, 0, 3+room), "old"...)
			if got := string(c.got(dst)); got != "old"+c.want {
				t.Errorf("%s: behind others with room for %d: %q", c.name, room, got)
			}
		}
	}
}

// checkRoundTrip is the runner for a reply's way from fields to bytes and
// back: one that §1 and §2 allow comes back as it was.
func checkRoundTrip(t testing.TB, op byte, token, owner uint64, text []byte) {
	t.Helper()
	want := Reply{Op: Op(op), Token: token, Owner: owner, Text: text}
	aboutKey := true
	switch want.Op {
	case OpGranted:
		want.Token = max(token, 1)
	case OpTimeout, OpBusy:
		want.Token = 0
	case OpReleased, OpNotHeld:
		want.Owner = 0
	default:
		aboutKey = false
		want.Token, want.Owner = 0, 0
	}
	frame, ok := appendReply(nil, want)
	if !ok || bytes.IndexByte(text, '\n') >= 0 {
		return
	}
	var wantErr error
	switch {
	case len(frame) > MaxFrame+1:
		wantErr = ErrReplyTooLong
	case aboutKey && !refKey(text):
		wantErr = ErrReplyKey
	}
	var got Reply
	n, err := ParseReply(append(frame, "Nwhat follows"...), &got)
	if err != wantErr {
		t.Fatalf("%q: %v, want %v", frame, err, wantErr)
	}
	if err != nil {
		return
	}
	if n != len(frame) || got.Op != want.Op || got.Token != want.Token || got.Owner != want.Owner || !bytes.Equal(got.Text, text) {
		t.Fatalf("%+v came back as %+v (%d of %d bytes)", want, got, n, len(frame))
	}
}

func TestReplyRoundTripRandom(t *testing.T) {
	keys := keyCases()
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 2))
		id := func() uint64 { return []uint64{0, 1, allNewlines, math.MaxUint64, random.Uint64()}[random.IntN(5)] }
		op, text := "ATBRNMLE"[random.IntN(8)], keys[random.IntN(len(keys))].key
		if op == 'E' {
			text = Reason(1 + random.IntN(8)).String()
		}
		if !t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { checkRoundTrip(t, op, id(), id(), []byte(text)) }) {
			return
		}
	}
}

func FuzzReplyRoundTrip(f *testing.F) {
	for i, key := range keyCases() {
		f.Add("ATBRNMLE"[i%8], uint64(1), uint64(allNewlines), []byte(key.key))
	}
	f.Add(byte('E'), uint64(0), uint64(0), []byte("shutting_down"))
	f.Fuzz(func(t *testing.T, op byte, token, owner uint64, text []byte) {
		checkRoundTrip(t, op, token, owner, text)
	})
}

func FuzzReplies(f *testing.F) {
	for _, c := range replyCases() {
		f.Add([]byte(c.in))
		f.Add([]byte("Ebad_op\n" + c.in + "\n"))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		if len(stream) > 2048 {
			t.Skip("nothing in a longer stream is new")
		}
		checkReplies(t, stream)
	})
}
