package loop

import (
	"crypto/tls"
	"testing"
)

// What sessions do does not depend on TLS: the same tests hold with it. A client's
// half-close is close_notify, and the end of what the server says has to be too.
func TestSessionsOverTLS(t *testing.T) {
	for _, c := range []struct {
		name    string
		version uint16
		fin     bool
		test    func(*testing.T)
	}{
		{"across loops", tls.VersionTLS13, false, TestAcquireReleaseAcrossLoops},
		{"across loops, 1.2", tls.VersionTLS12, false, TestAcquireReleaseAcrossLoops},
		{"hand-over", tls.VersionTLS13, false, TestHandOverAndTimeoutAcrossLoops},
		{"error", tls.VersionTLS13, false, TestErrorIsLast},
		{"error, 1.2", tls.VersionTLS12, false, TestErrorIsLast},
		{"lane", tls.VersionTLS13, false, TestReleaseLane},
		{"half-closed", tls.VersionTLS13, false, TestHalfClosedClientIsAnswered},
		{"half-closed, 1.2", tls.VersionTLS12, false, TestHalfClosedClientIsAnswered},
		{"half-closed with a FIN", tls.VersionTLS13, true, TestHalfClosedClientIsAnswered},
		{"half-closed in the lane", tls.VersionTLS13, true, TestHalfClosedClientInTheLane},
		{"half-closed, no waiter", tls.VersionTLS13, true, TestHalfClosedClientLeavesNoWaiter},
		{"unsent grant", tls.VersionTLS13, false, TestUnsentGrantIsGivenBack},
		{"unsent replies", tls.VersionTLS13, false, TestUnsentReplies},
		{"slow", tls.VersionTLS13, false, TestSlowClientCatchesUp},
		{"slow, half-closed", tls.VersionTLS13, false, TestSlowHalfClosedClient},
		{"slow, error", tls.VersionTLS13, false, TestErrorToSlowClient},
		{"slow, grant given back", tls.VersionTLS13, false, TestUnsentGrantOfSlowClientIsGivenBack},
		{"reset", tls.VersionTLS13, false, TestHandOverToResetClient},
		{"reads meanwhile", tls.VersionTLS13, false, TestHalfClosedClientReadsMeanwhile},
	} {
		overTLS(t, c.name, c.version, c.fin, c.test)
	}
}
