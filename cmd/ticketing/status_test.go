package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"ticketing/internal/admin"
	"ticketing/loop"
)

// What somebody else chose is shown on one line, with nothing in it that a
// terminal obeys.
func TestStatusTables(t *testing.T) {
	var out strings.Builder
	err := writeStatus(&out, &admin.Status{
		Version: "v1.2.3\x1b[31m", Commit: "abc", GoVersion: "go1.26", UptimeSeconds: 3661.4, Ready: true,
		Gauges: []loop.Gauge{{Name: "connections", Used: 7, Limit: 10, Open: true}, {Name: "keys", Used: 9, Limit: 9}},
		Totals: admin.Totals{Granted: 3, Expiries: 1},
		Loops:  []admin.LoopStatus{{Connections: 7, Keys: 9, Waiters: 5, AgeSeconds: 0.25}},
		Queues: []admin.QueueStatus{{Label: "long\u202e\x1b[2J", Waiters: 5}, {Label: "short", Waiters: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `ticketing v1.2.3\x1b[31m (commit abc, go1.26), serving, up 1h1m1s

LIMIT        USED  OF  ADMISSION
connections  7     10  open
keys         9     9   closed

SINCE THE START  COUNT
granted          3
timed out        0
busy             0
released         0
not held         0
handed over      0
expired          1
connections      0

LOOP  CONNECTIONS  KEYS  WAITERS  AGE
0     7            9     5        0.2s

WAITERS  LONGEST QUEUES
5        long\u202e\x1b[2J
1        short
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	for want, s := range map[string]admin.Status{"draining": {Draining: true}, "not ready": {}, "serving": {Ready: true}} {
		if got := statusWord(&s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A server that is something else is told from a node.
func TestStatusOfSomethingElse(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		says   string
	}{
		"not there":   {http.NotFound, "the answer is 404 Not Found"},
		"elsewhere":   {http.RedirectHandler("/other", http.StatusFound).ServeHTTP, "the answer is 302 Found"},
		"other words": {func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("fine")) }, "the answer is not that of a ticketing node"},
		"other JSON":  {func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"status": "fine"}`)) }, "the answer is not that of a ticketing node"},
		"no more than half": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.Write([]byte("{"))
		}, "unexpected EOF"},
	} {
		server := httptest.NewServer(c.answer)
		defer server.Close()
		for _, args := range [][]string{{"status"}, {"status", "--json"}} {
			cmd := clientCommand(nil, []string{"ADMIN_ADDR=" + strings.TrimPrefix(server.URL, "http://"), "HTTP_PROXY=http://127.0.0.1:1"}, args...)
			stdout, stderr := launch(t, cmd).exits(exitNoSession)
			if stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.says) {
				t.Errorf("%s: stdout %q, stderr %q, want %q", name, stdout, stderr, c.says)
			}
		}
	}
}
