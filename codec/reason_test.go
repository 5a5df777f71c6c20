package codec

import "testing"

func TestReasons(t *testing.T) {
	words := []string{"bad_op", "bad_request", "bad_lease", "bad_key", "line_too_long", "auth_failed", "no_leader", "shutting_down"}
	reasons := []Reason{ReasonBadOp, ReasonBadRequest, ReasonBadLease, ReasonBadKey, ReasonLineTooLong, ReasonAuthFailed, ReasonNoLeader, ReasonShuttingDown}
	for i, word := range words {
		if got := reasons[i].String(); got != word {
			t.Errorf("reason %d is %q on the wire, want %q", reasons[i], got, word)
		}
		if got, ok := ParseReason(word); !ok || got != reasons[i] {
			t.Errorf("ParseReason(%q) = %v, %v", word, got, ok)
		}
		if got, ok := ParseReason([]byte(word)); !ok || got != reasons[i] {
			t.Errorf("ParseReason of the bytes of %q = %v, %v", word, got, ok)
		}
		if got := string(AppendError(nil, reasons[i])); got != "E"+word+"\n" {
			t.Errorf("AppendError(%v) = %q", reasons[i], got)
		}
	}
	known := 0
	for r := range 256 {
		if _, ok := ParseReason(Reason(r).String()); ok {
			known++
		}
	}
	if known != 8 {
		t.Errorf("%d reasons, and §6 has exactly eight", known)
	}
	for _, word := range []string{"", "none", "unknown", "bad_op ", "BAD_OP", "bad_o", "bad_keyy", "bad_key\r"} {
		if got, ok := ParseReason(word); ok || got != ReasonNone {
			t.Errorf("ParseReason(%q) = %v, %v", word, got, ok)
		}
	}
	if got := (ReasonShuttingDown + 1).String(); got != "unknown" {
		t.Errorf("a reason that is none of ours is %q", got)
	}
}

func TestAppendErrorWithoutReason(t *testing.T) {
	for _, reason := range []Reason{ReasonNone, ReasonShuttingDown + 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("AppendError(%d) sent something that is no reason", reason)
				}
			}()
			AppendError(nil, reason)
		}()
	}
}
