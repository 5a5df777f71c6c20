package codec

import (
	"bytes"
	"testing"
)

// checkRequests is the runner of every test of ParseRequest that takes a
// stream: table, random, fuzzing and regressions. It holds the parser against
// the reference in every split of the stream: the parser keeps no state, so
// what it is asked in any split is a frame's start and how much is there, and
// all such pairs are tried.
func checkRequests(t testing.TB, stream []byte) {
	t.Helper()
	frames := refRead(stream, refRequestHeaders, true, refJudgeRequest)
	eachPrefix(stream, frames, func(part []byte, want *refFrame) {
		got := Request{Op: 'x', Wait: 3, Lease: 3, ID: 3, Key: []byte("left over")}
		n, reason := ParseRequest(part, &got)
		switch {
		case want == nil:
			if n != 0 || reason != ReasonNone {
				t.Fatalf("%q: n=%d %v, want need more", part, n, reason)
			}
		case want.fault != "":
			if n != 0 || reason.String() != want.fault {
				t.Fatalf("%q: n=%d %v, want %s", part, n, reason, want.fault)
			}
		default:
			if n != want.decided-want.start || reason != ReasonNone {
				t.Fatalf("%q: n=%d %v, want a frame of %d bytes", part, n, reason, want.decided-want.start)
			}
			checkRequest(t, part[:n], got, want)
		}
	})
}

// checkRequest holds the fields of a whole frame against the reference, and
// the appenders against the frame's bytes.
func checkRequest(t testing.TB, frame []byte, got Request, want *refFrame) {
	t.Helper()
	var again []byte
	same := byte(got.Op) == want.op && bytes.Equal(got.Key, want.text)
	switch want.op {
	case 'A':
		same = same && got.Wait == want.header[0] && got.Lease == want.header[1] && got.ID == refNumber(want.header[2:])
		again = AppendAcquire(nil, got.ID, got.Wait, got.Lease, got.Key)
	case 'R':
		same = same && got.Wait == 0 && got.Lease == 0 && got.ID == refNumber(want.header)
		again = AppendRelease(nil, got.ID, string(got.Key))
	case '\n':
		same = same && got.Wait == 0 && got.Lease == 0 && got.ID == 0 && got.Key == nil
		again = []byte{'\n'}
	}
	if !same {
		t.Fatalf("%q: read as %+v", frame, got)
	}
	if !bytes.Equal(again, frame) {
		t.Fatalf("%q: appended again as %q", frame, again)
	}
	checkAlias(t, frame, got.Key)
}

// checkReplies is checkRequests for ParseReply.
func checkReplies(t testing.TB, stream []byte) {
	t.Helper()
	faults := map[string]error{"bad_op": ErrReplyOp, "line_too_long": ErrReplyTooLong, "token": ErrReplyToken, "key": ErrReplyKey}
	frames := refRead(stream, refReplyHeaders, false, refJudgeReply)
	eachPrefix(stream, frames, func(part []byte, want *refFrame) {
		got := Reply{Op: 'x', Token: 3, Owner: 3, Text: []byte("left over")}
		n, err := ParseReply(part, &got)
		switch {
		case want == nil:
			if n != 0 || err != nil {
				t.Fatalf("%q: n=%d %v, want need more", part, n, err)
			}
		case want.fault != "":
			if n != 0 || err != faults[want.fault] {
				t.Fatalf("%q: n=%d %v, want %v", part, n, err, faults[want.fault])
			}
		default:
			if n != want.decided-want.start || err != nil {
				t.Fatalf("%q: n=%d %v, want a frame of %d bytes", part, n, err, want.decided-want.start)
			}
			checkReply(t, part[:n], got, want)
		}
	})
}

// checkReply is checkRequest for replies.
func checkReply(t testing.TB, frame []byte, got Reply, want *refFrame) {
	t.Helper()
	var token, owner uint64
	switch want.op {
	case 'A':
		token, owner = refNumber(want.header[:8]), refNumber(want.header[8:])
	case 'R', 'N':
		token = refNumber(want.header)
	case 'T', 'B':
		owner = refNumber(want.header)
	}
	if byte(got.Op) != want.op || got.Token != token || got.Owner != owner || !bytes.Equal(got.Text, want.text) {
		t.Fatalf("%q: read as %+v", frame, got)
	}
	if again, ok := appendReply(nil, got); ok && !bytes.Equal(again, frame) {
		t.Fatalf("%q: appended again as %q", frame, again)
	}
	checkAlias(t, frame, got.Text)
}

// appendReply appends r with the appender of its op; false when there is none
// for it, as for an error with a reason of nobody's.
func appendReply(dst []byte, r Reply) ([]byte, bool) {
	switch r.Op {
	case OpGranted:
		return AppendGranted(dst, r.Token, r.Owner, r.Text), true
	case OpTimeout:
		return AppendTimeout(dst, r.Owner, r.Text), true
	case OpBusy:
		return AppendBusy(dst, r.Owner, string(r.Text)), true
	case OpReleased:
		return AppendReleased(dst, r.Token, r.Text), true
	case OpNotHeld:
		return AppendNotHeld(dst, r.Token, string(r.Text)), true
	case OpMoved:
		return AppendMoved(dst, string(r.Text)), true
	case OpLeadershipLost:
		return AppendLeadershipLost(dst, string(r.Text)), true
	case OpError:
		if reason, ok := ParseReason(r.Text); ok {
			return AppendError(dst, reason), true
		}
	}
	return dst, false
}

// eachPrefix calls try with every part of stream that begins where a frame
// does, and with what the reference makes of that part: nil for need more.
// Parts that go on beyond a frame stop a little behind what any parser may
// look at; the whole rest is tried as well.
func eachPrefix(stream []byte, frames []refFrame, try func(part []byte, want *refFrame)) {
	start := 0
	for i := range frames {
		f := &frames[i]
		start = f.start
		for end := start; end <= min(len(stream), f.decided+MaxFrame+8); end++ {
			if end < f.decided {
				try(stream[start:end:end], nil)
			} else {
				try(stream[start:end:end], f)
			}
		}
		try(stream[start:], f)
		start = f.decided
		if f.fault != "" {
			return
		}
	}
	for end := start; end <= len(stream); end++ {
		try(stream[start:end:end], nil)
	}
}

// checkAlias says that text is the frame's own memory in front of its '\n',
// and that appending to it cannot write over what follows.
func checkAlias(t testing.TB, frame, text []byte) {
	t.Helper()
	if len(text) == 0 {
		return
	}
	if &text[len(text)-1] != &frame[len(frame)-2] {
		t.Fatalf("%q: the text is not in the input", frame)
	}
	if cap(text) != len(text) {
		t.Fatalf("%q: the text has room behind it", frame)
	}
}
