package codec

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

const allNewlines = 0x0A0A0A0A0A0A0A0A // a number whose eight bytes are '\n'

// acquire and release write frames by hand, so that no expectation comes from
// the code under test. An owner or token is eight bytes.
func acquire(wait, lease byte, owner, key string) string {
	return "A" + string([]byte{wait, lease}) + owner + key + "\n"
}
func release(token, key string) string { return "R" + token + key + "\n" }

const (
	number   = "\x01\x02\x03\x04\x05\x06\x07\x08"
	newlines = "\n\n\n\n\n\n\n\n"
)

// requestCase is one frame and its outcome: want is a reason's word, "frame"
// for one that takes up all of in, or "more".
type requestCase struct{ name, in, want string }

func requestCases() []requestCase {
	k := func(n int) string { return strings.Repeat("k", n) }
	cases := []requestCase{
		{"nothing", "", "more"},
		{"keep-alive", "\n", "frame"},

		{"op of a reply", "T", "bad_op"},
		{"op in lower case", "a", "bad_op"},
		{"op CR", "\r\n", "bad_op"},
		{"op NUL", "\x00", "bad_op"},
		{"op with everything else wrong", "X" + k(300), "bad_op"},

		{"acquire op alone", "A", "more"},
		{"acquire header", "A\x1e\x1e" + number, "more"},
		{"acquire header of newlines", "A\n\n" + newlines, "more"},
		{"acquire header of newlines and key", acquire('\n', '\n', newlines, "k"), "frame"},
		{"release op alone", "R", "more"},
		{"release header", "R" + number, "more"},
		{"release header of newlines", "R" + newlines, "more"},
		{"release header of newlines and key", release(newlines, "k"), "frame"},
		{"owner 0", acquire(0, 1, "\x00\x00\x00\x00\x00\x00\x00\x00", "k"), "frame"},
		{"owner of all ones", acquire(255, 250, "\xff\xff\xff\xff\xff\xff\xff\xff", "k"), "frame"},
		{"token 0", release("\x00\x00\x00\x00\x00\x00\x00\x00", "k"), "frame"},
		{"header of spaces", acquire(' ', ' ', "        ", "k"), "frame"},
		{"header that is not UTF-8", release("\xff\xfe\xc0\x80\xed\xa0\x80\xff", "k"), "frame"},

		{"wait 0", acquire(0, 30, number, "k"), "frame"},
		{"wait 255", acquire(255, 30, number, "k"), "frame"},

		{"bad lease before bad key", acquire(0, 0, number, ""), "bad_lease"},
		{"bad lease before bad UTF-8", acquire(0, 251, number, "\xff"), "bad_lease"},
		{"bad lease is not seen before the frame is whole", "A\x00\x00" + number + "k", "more"},
		{"bad key is not seen before the frame is whole", "R" + number + " \xff", "more"},
	}
	for _, lease := range []int{0, 1, 2, 10, 249, 250, 251, 252, 254, 255} {
		want := "frame"
		if lease == 0 || lease >= 251 {
			want = "bad_lease"
		}
		cases = append(cases, requestCase{fmt.Sprint("lease ", lease), acquire(30, byte(lease), number, "key"), want})
	}

	// 192 and 193 bytes without '\n', for either op; key lengths follow.
	for _, op := range []struct{ name, head, tooLongWins string }{
		{"acquire", "A\x1e\x1e" + number, "bad_key"},
		{"acquire with bad lease", "A\x1e\x00" + number, "bad_lease"},
		{"acquire of newlines", "A\n\n" + newlines, "bad_key"},
		{"release", "R" + number, "bad_key"},
		{"release of newlines", "R" + newlines, "bad_key"},
	} {
		room := 192 - len(op.head)
		cases = append(cases,
			requestCase{op.name + ", 191 bytes so far", op.head + k(room-1), "more"},
			requestCase{op.name + ", 192 bytes so far", op.head + k(room), "more"},
			requestCase{op.name + ", 191 bytes", op.head + k(room-1) + "\n", op.tooLongWins},
			requestCase{op.name + ", 192 bytes", op.head + k(room) + "\n", op.tooLongWins},
			requestCase{op.name + ", 193 bytes so far", op.head + k(room+1), "line_too_long"},
			requestCase{op.name + ", 193 bytes", op.head + k(room+1) + "\n", "line_too_long"},
			requestCase{op.name + ", 193 bytes of another script", op.head + strings.Repeat("é", room/2+1), "line_too_long"},
			requestCase{op.name + ", far too long", op.head + k(5000) + "\n", "line_too_long"},
		)
	}

	for _, key := range keyCases() {
		want := "frame"
		if !key.legal {
			want = "bad_key"
		}
		cases = append(cases,
			requestCase{"acquire, key " + key.name, acquire(30, 30, number, key.key), want},
			requestCase{"acquire of newlines, key " + key.name, acquire('\n', '\n', newlines, key.key), want},
			requestCase{"release, key " + key.name, release(number, key.key), want})
	}
	return cases
}

// TestRequest says what each case is, by itself and through the runner alone,
// behind other frames, and in front of them.
func TestRequest(t *testing.T) {
	before := "\n" + acquire(1, 1, newlines, "before") + release(number, "before")
	for _, c := range requestCases() {
		t.Run(c.name, func(t *testing.T) {
			var r Request
			n, reason := ParseRequest([]byte(c.in), &r)
			got := reason.String()
			if reason == ReasonNone {
				got = map[bool]string{true: "frame", false: "more"}[n == len(c.in) && n > 0]
			}
			if got != c.want || (got != "frame" && n != 0) {
				t.Errorf("%q is %s (n=%d), want %s", c.in, got, n, c.want)
			}
			checkRequests(t, []byte(c.in))
			checkRequests(t, []byte(before+c.in))
			checkRequests(t, []byte(before+c.in+"\n"+before))
		})
	}
}

func TestRequestFields(t *testing.T) {
	in := []byte("A\x05\x07\x01\x02\x03\x04\x05\x06\x07\x08key\nR\xff\x0a\x00\x00\x00\x00\x00\x02k\r\n\n")
	var r Request
	n, reason := ParseRequest(in, &r)
	if n != 15 || reason != ReasonNone || r.Op != OpAcquire || r.Wait != 5 || r.Lease != 7 || r.ID != 0x0102030405060708 || string(r.Key) != "key" {
		t.Errorf("acquire: n=%d %v %+v", n, reason, r)
	}
	in = in[n:]
	n, reason = ParseRequest(in, &r)
	if n != 12 || reason != ReasonNone || r.Op != OpRelease || r.ID != 0xff0a000000000002 || string(r.Key) != "k\r" {
		t.Errorf("release: n=%d %v %+v", n, reason, r)
	}
	in = in[n:]
	n, reason = ParseRequest(in, &r)
	if n != 1 || reason != ReasonNone || r.Op != OpKeepAlive || r.Key != nil {
		t.Errorf("keep-alive: n=%d %v %+v", n, reason, r)
	}
}

// TestRequestOps: an op is judged as soon as its byte is there (§1.4).
func TestRequestOps(t *testing.T) {
	for c := range 256 {
		op := byte(c)
		var r Request
		n, reason := ParseRequest([]byte{op}, &r)
		switch op {
		case 'A', 'R':
			if n != 0 || reason != ReasonNone {
				t.Errorf("op %q: n=%d %v, want need more", op, n, reason)
			}
		case '\n':
			if n != 1 || reason != ReasonNone {
				t.Errorf("op %q: n=%d %v, want a keep-alive", op, n, reason)
			}
		default:
			if n != 0 || reason != ReasonBadOp {
				t.Errorf("op %q: n=%d %v, want bad_op", op, n, reason)
			}
		}
	}
}

// TestRequestBytes puts every byte at every place of keys around one word
// of eight.
func TestRequestBytes(t *testing.T) {
	for _, size := range []int{1, 8, 9} {
		for place := range size {
			for c := range 256 {
				key := bytes.Repeat([]byte("k"), size)
				key[place] = byte(c)
				checkRequests(t, []byte(release(number, string(key))+"\n"))
			}
		}
	}
}

// TestRequestHeaderNewlines puts '\n' in every subset of a header's bytes.
func TestRequestHeaderNewlines(t *testing.T) {
	for set := range 1 << 10 {
		header := []byte("\x1e\x1e" + number)
		for i := range header {
			if set>>i&1 == 1 {
				header[i] = '\n'
			}
		}
		checkRequests(t, []byte("A"+string(header)+"key\n\n"))
		checkRequests(t, []byte("R"+string(header[2:])+"key\n\n"))
	}
}

// TestRequestsRandom runs streams of frames with something wrong now and then.
func TestRequestsRandom(t *testing.T) {
	keys := keyCases()
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		var stream []byte
		for range random.IntN(12) {
			key := keys[random.IntN(len(keys))]
			if !key.legal && random.IntN(8) > 0 {
				key.key = "legal"
			}
			id := []uint64{0, 1, allNewlines, math.MaxUint64, random.Uint64()}[random.IntN(5)]
			switch random.IntN(3) {
			case 0:
				stream = append(stream, '\n')
			case 1:
				lease := 1 + random.IntN(250)
				if random.IntN(30) == 0 {
					lease = random.IntN(256)
				}
				stream = AppendAcquire(stream, id, byte(random.IntN(256)), byte(lease), key.key)
			case 2:
				stream = AppendRelease(stream, id, key.key)
			}
		}
		if len(stream) > 0 && random.IntN(2) == 0 { // any damage at all
			stream[random.IntN(len(stream))] = byte(random.IntN(256))
		}
		if !t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { checkRequests(t, stream) }) {
			return
		}
	}
}

func FuzzRequests(f *testing.F) {
	for _, c := range requestCases() {
		f.Add([]byte(c.in))
		f.Add([]byte(acquire(30, 30, newlines, "before") + c.in + "\n"))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		if len(stream) > 2048 {
			t.Skip("nothing in a longer stream is new")
		}
		checkRequests(t, stream)
	})
}
