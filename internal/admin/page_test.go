package admin

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"ticketing/loop"
)

func TestPageLoadsNothingFromElsewhere(t *testing.T) {
	_, body, header := request(t, newServer(t, newFake()), "GET", "/")
	if m := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9.-]+\.[a-z]{2,}`).FindAllString(body, -1); len(m) > 0 {
		for _, address := range m {
			if address != "http://www.w3.org" { // the name of a namespace
				t.Errorf("the page names %s", address)
			}
		}
	}
	if strings.Contains(body, "/*css*/") || strings.Contains(body, "/*js*/") {
		t.Error("a part of the page is missing")
	}
	policy := header.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", sourceHash(pageJS), sourceHash(pageCSS), "frame-ancestors 'none'"} {
		if !strings.Contains(policy, part) {
			t.Errorf("policy %q lacks %q", policy, part)
		}
	}
}

// chromium returns the browser's path. Without one the test is skipped, but
// never where CI=true promises that it ran.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("no chromium here: install it")
	}
	t.Skip("no chromium here: the page was not tried in a browser")
	return ""
}

// browse opens url in a browser for some seconds of the page's own time.
func browse(t *testing.T, path, url string, more ...string) string {
	t.Helper()
	args := append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--hide-scrollbars", "--virtual-time-budget=9000", "--user-data-dir=" + t.TempDir(),
	}, append(more, url)...)
	cmd := exec.Command(path, args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, errs.String())
	}
	return string(out)
}

// movingSource is a busy server that grants 100 more for every look at it.
func movingSource() *fakeSource {
	source := newFake()
	var looks atomic.Uint64
	source.snap = func(queues int) loop.Snapshot {
		snap := busySnapshot(queues)
		snap.Loops[0].Shard.Granted += 100 * looks.Add(1)
		return snap
	}
	return source
}

func TestPageInABrowser(t *testing.T) {
	path := chromium(t)
	source := movingSource()
	url, _ := listen(t, newServer(t, source))

	dom := browse(t, path, url, "--dump-dom")
	for what, pattern := range map[string]string{
		"state":             `<p id="state" class="state ready" role="status">ready</p>`,
		"uptime":            `v1\.2\.3 · up 1 h 30 min`,
		"a rate":            `data-rate="granted">.*?<div class="value">[0-9.]+</div><div class="total">2,[0-9]+ in all`,
		"a resting rate":    `data-rate="expiries">.*?<div class="value">0</div><div class="total">120 in all`,
		"a bar":             `data-gauge="acquires_in_flight">.*?aria-valuemax="4096" aria-valuenow="1024" .*?style="width: 25%;"`,
		"a closed limit":    `data-gauge="waiters" class="closed">.*?aria-valuetext="14,800 of 16,384 \(90\.3 %\), refusing"`,
		"the longest queue": `data-gauge="waiters_per_key">.*?2,000 of 2,048`,
		"markup in a key":   `<td class="key">&lt;script&gt;document\.title='owned'&lt;/script&gt;</td><td class="number">2,000</td>`,
		"controls in a key": `<td class="key">orders/\\x00\\x1b\[31m\\r\\t\\u202egnp\.exe</td>`,
		"a loop":            `<tr><td>1</td><td class="number">21</td><td class="number">4</td><td class="number">7,400</td></tr>`,
		"refusals":          `<td>queue full</td><td class="number">22</td>`,
		"the title":         `<title>Ticketing</title>`,
	} {
		if !regexp.MustCompile(`(?s)` + pattern).MatchString(dom) {
			t.Errorf("the page does not show %s: no %s", what, pattern)
		}
	}
	if source.asked.Load() < 2 {
		t.Errorf("the page asked %d times", source.asked.Load())
	}
	if t.Failed() {
		t.Log(dom)
	}
}

func TestPageOfADrainingServerInABrowser(t *testing.T) {
	path := chromium(t)
	source := newFake()
	source.snap = func(int) loop.Snapshot {
		return loop.Snapshot{Draining: true, Gauges: []loop.Gauge{{Name: "keys", Limit: 10, Open: true}}}
	}
	url, _ := listen(t, newServer(t, source))
	dom := browse(t, path, url, "--dump-dom")
	for _, want := range []string{
		`class="state draining" role="status">draining<`, `<title>draining – Ticketing</title>`,
		`<p id="no-queues" class="empty">Nobody waits.</p>`, `<p id="no-refusals" class="empty">Nothing was refused.</p>`,
	} {
		if !strings.Contains(dom, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

// Pictures for a person to look at: go test -run Pictures -artifacts.
func TestPagePictures(t *testing.T) {
	if f := flag.Lookup("test.artifacts"); f == nil || f.Value.String() != "true" {
		t.Skip("pictures of the page are made with -artifacts only")
	}
	path := chromium(t)
	url, _ := listen(t, newServer(t, movingSource()))
	for name, options := range map[string][]string{
		"desk.png":  {"--window-size=1200,1000"},
		"phone.png": {"--window-size=500,1900"},
		"dark.png":  {"--window-size=1200,1000", "--blink-settings=preferredColorScheme=0"},
	} {
		file := filepath.Join(t.ArtifactDir(), name)
		browse(t, path, url, append(options, "--screenshot="+file)...)
		if info, err := os.Stat(file); err != nil || info.Size() < 10_000 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}
