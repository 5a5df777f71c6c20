package deploy

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	alertsPath    = "prometheus/alerts.yml"
	dashboardPath = "grafana/ticketing.json"
)

// scraped is what servers export: each metric's samples, by name.
type scraped map[string][]string

// scrape asks a single node with TLS, and the leader of a cluster, which has
// metrics that the others have not.
func scrape(t *testing.T) scraped {
	t.Helper()
	cert, key := selfSigned(t, t.TempDir())
	single := mustStart(t, serve("TLS_CERT_FILE="+cert, "TLS_KEY_FILE="+key))
	leader := mustStart(t, serve(append(clusterOfOne(), "CLUSTER_DATA_DIR="+t.TempDir())...))
	s := scraped{}
	for line := range strings.Lines(single.get("/metrics") + leader.leads()) {
		name, _, _ := strings.Cut(strings.FieldsFunc(line, func(r rune) bool { return r == '{' || r == ' ' })[0], "\n")
		if name != "#" {
			s[name] = append(s[name], line)
		}
	}
	if len(s["ticketing_ready"]) != 2 || len(s["ticketing_acquires_total"]) != 6 || len(s["ticketing_cluster_member_active"]) != 1 {
		t.Fatalf("/metrics has %d metrics", len(s))
	}
	return s
}

var (
	selector = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\{[^}]*\})?`)
	matcher  = regexp.MustCompile(`(\w+)\s*(=~|!=|!~|=)\s*"([^"]*)"`)
	grouping = regexp.MustCompile(`\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`)
	window   = regexp.MustCompile(`\[[^\]]*\]`)
)

// words of PromQL, and the functions that are used here: another one in a query
// is taken for a metric, and then missed.
var words = []string{
	"and", "or", "unless", "sum", "max", "min", "rate", "increase", "resets", "histogram_quantile", "avg_over_time", "label_values", "instance", "time",
}

// added are labels that Prometheus adds, which no server exports.
var added = []string{"instance", "job"}

// missing returns what a query speaks of and no server has: a metric, a label, a
// value of a label.
func (s scraped) missing(query string) (all []string) {
	query = window.ReplaceAllString(grouping.ReplaceAllString(query, ""), "")
	found := 0
	for _, m := range selector.FindAllStringSubmatch(query, -1) {
		name, braces := m[1], m[2]
		if slices.Contains(words, name) || name == "up" {
			continue
		}
		found++
		if s[name] == nil {
			all = append(all, "the metric "+name)
			continue
		}
		for _, label := range matcher.FindAllStringSubmatch(braces, -1) {
			if slices.Contains(added, label[1]) {
				continue
			}
			for _, value := range strings.Split(label[3], "|") {
				if !slices.ContainsFunc(s[name], func(line string) bool { return strings.Contains(line, label[1]+`="`+value+`"`) }) {
					all = append(all, name+" with "+label[1]+" "+value)
				}
			}
		}
	}
	if found == 0 && !strings.Contains(query, "up{") {
		all = append(all, "any metric")
	}
	return all
}

// The check of queries finds what is wrong with one.
func TestMissingMetricsAreFound(t *testing.T) {
	s := scrape(t)
	for query, want := range map[string]string{
		`ticketing_ready == 0`: "",
		`sum by (instance) (rate(ticketing_acquires_total{result="busy"}[5m])) / sum(rate(ticketing_acquires_total[5m]))`:     "",
		`histogram_quantile(0.9, sum by (le) (rate(ticketing_wait_seconds_bucket{instance=~"$instance"}[$__rate_interval])))`: "",
		`ticketing_cluster_commit_index - on (instance) group_right () ticketing_cluster_member_match_index > 1`:              "",
		`ticketing_cluster_members{vote="observer"}`:            "ticketing_cluster_members with vote observer",
		`ticketing_redy == 0`:                                   "the metric ticketing_redy",
		`rate(ticketing_acquires_total{result="bussy"}[5m])`:    "ticketing_acquires_total with result bussy",
		`rate(ticketing_acquires_total{reason="busy"}[5m])`:     "ticketing_acquires_total with reason busy",
		`x{reason=~"a"}`:                                        "the metric x",
		`ticketing_connections_closed_total{reason=~"reset|r"}`: "ticketing_connections_closed_total with reason r",
		`rate_of(ticketing_ready)`:                              "the metric rate_of",
		`1 > 0`:                                                 "any metric",
	} {
		if got := strings.Join(s.missing(query), ", "); got != want {
			t.Errorf("%s: missing %q, want %q", query, got, want)
		}
	}
}

// Every alert asks for what a server has, and says who is to do what.
func TestAlerts(t *testing.T) {
	text, err := os.ReadFile(alertsPath)
	if err != nil {
		t.Fatal(err)
	}
	s := scrape(t)
	rules := strings.Split(string(text), "- alert: ")[1:]
	if len(rules) < 10 {
		t.Fatalf("%d alerts", len(rules))
	}
	for _, rule := range rules {
		name, body, _ := strings.Cut(rule, "\n")
		expr := regexp.MustCompile(`(?m)^ +expr: (.+)$`).FindStringSubmatch(body)
		if expr == nil {
			t.Errorf("%s has no expression on one line", name)
			continue
		}
		for _, what := range s.missing(expr[1]) {
			t.Errorf("%s asks for %s, which no server has", name, what)
		}
		for _, part := range []string{"severity: ", "summary: "} {
			if !strings.Contains(body, part) {
				t.Errorf("%s has no %s", name, part)
			}
		}
	}
}

// Prometheus itself takes the files, where its tool is there to ask.
func TestAlertsByPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("no promtool here: Prometheus did not look at its files")
	}
	for _, args := range [][]string{{"check", "config", "prometheus.yml"}, {"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = "prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// dashboard is what is looked at of Grafana's format.
type dashboard struct {
	Title, UID string
	Panels     []struct {
		ID          int
		Type, Title string
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct{ Expr, RefID string }
	}
	Templating struct {
		List []struct {
			Name, Type string
			Query      json.RawMessage
		}
	}
}

// Every panel of the dashboard shows something that a server has, nothing of
// what matters is left out, and no panel covers another.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile(dashboardPath)
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	s := scrape(t)
	var all bytes.Buffer
	ids := map[int]bool{}
	taken := map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("%s has the id of another panel", p.Title)
		}
		ids[p.ID] = true
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s shows nothing", p.Title)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if at := taken[[2]int{x, y}]; at != "" || x >= 24 {
					t.Fatalf("%q lies on %q at %d, %d", p.Title, at, x, y)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		for _, target := range p.Targets {
			all.WriteString(target.Expr + "\n")
			for _, what := range s.missing(target.Expr) {
				t.Errorf("%s asks for %s, which no server has", p.Title, what)
			}
		}
	}
	for name := range s {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		if strings.HasPrefix(name, "ticketing_") && !strings.Contains(all.String(), base) && name != "ticketing_draining" {
			t.Errorf("no panel shows %s", base)
		}
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		var q struct{ Query string }
		if err := json.Unmarshal(v.Query, &q); err != nil {
			t.Fatal(err)
		}
		for _, what := range s.missing(q.Query) {
			t.Errorf("the variable %s asks for %s, which no server has", v.Name, what)
		}
	}
}
