package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"ticketing/loop"
)

// parse reads a command line without running it.
func parse(t *testing.T, environ []string, args ...string) (*serveCmd, error) {
	t.Helper()
	var commands cli
	parser, err := newParser(&commands, &process{stdout: io.Discard, stderr: io.Discard, environ: environ})
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(append([]string{"serve"}, args...))
	return &commands.Serve, err
}

// serveFlags returns the settings of serve that are shown to users: its flags
// but for --check, which is none.
func serveFlags(t *testing.T) []*kong.Flag {
	return slices.DeleteFunc(flagsOf(t, "serve"), func(f *kong.Flag) bool { return f.Name == "check" })
}

// flagsOf returns the flags of a command that are shown to users.
func flagsOf(t *testing.T, command string) []*kong.Flag {
	t.Helper()
	var commands cli
	parser, err := newParser(&commands, &process{stdout: io.Discard, stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range parser.Model.Children {
		if node.Name == command {
			var shown []*kong.Flag
			for _, flag := range node.Flags {
				if !flag.Hidden {
					shown = append(shown, flag)
				}
			}
			return shown
		}
	}
	t.Fatalf("no %s command", command)
	return nil
}

func TestDefaults(t *testing.T) {
	c, err := parse(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%+v", *c)
	want := fmt.Sprintf("%+v", serveCmd{
		ListenAddr: "127.0.0.1:7400", AdminAddr: "127.0.0.1:7401", Loops: count(defaultLoops()),
		MaxConnections: 1024, MaxWaiters: 2048, MaxTotalWaiters: 16384, MaxKeys: 1048576,
		DrainTimeout: span(10 * time.Second), LogLevel: "info", LogFormat: "text",
		clusterFlags: clusterFlags{ClusterName: text{true, "ticketing"}},
	})
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if defaultLoops() < 1 {
		t.Errorf("%d loops", defaultLoops())
	}
}

// Every number is tried on both sides of both its ends, as a flag and as a
// variable; the server's own check must agree on each.
func TestRanges(t *testing.T) {
	settings := map[string]struct {
		low, high int
		field     func(*loop.Config) *int
	}{
		"LOOPS":             {1, 256, func(c *loop.Config) *int { return &c.Loops }},
		"MAX_CONNECTIONS":   {1, 8192, func(c *loop.Config) *int { return &c.MaxConnections }},
		"MAX_WAITERS":       {1, 16384, func(c *loop.Config) *int { return &c.MaxWaiters }},
		"MAX_TOTAL_WAITERS": {1, 65536, func(c *loop.Config) *int { return &c.MaxTotalWaiters }},
		"MAX_KEYS":          {1, 16777216, func(c *loop.Config) *int { return &c.MaxKeys }},
	}
	for name, s := range settings {
		flag := "--" + strings.ToLower(strings.ReplaceAll(name, "_", "-"))
		for _, n := range []int{s.low - 1, s.low, s.high, s.high + 1} {
			allowed := s.low <= n && n <= s.high
			_, flagErr := parse(t, nil, fmt.Sprintf("%s=%d", flag, n))
			_, variableErr := parse(t, []string{fmt.Sprintf("%s=%d", name, n)})
			server := loop.Config{
				ListenAddr: "127.0.0.1:0", Loops: 1, MaxConnections: 1, MaxWaiters: 1, MaxTotalWaiters: 1, MaxKeys: 1,
			}
			*s.field(&server) = n
			if flagErr == nil != allowed || variableErr == nil != allowed || server.Validate() == nil != allowed {
				t.Errorf("%s=%d: allowed %v, flag %v, variable %v, server %v", name, n, allowed, flagErr, variableErr, server.Validate())
			}
			want := fmt.Sprintf("%s (%s) is %q: allowed is %d..%d", name, flag, strconv.Itoa(n), s.low, s.high)
			if !allowed && (plain(flagErr).Error() != want || plain(variableErr).Error() != want) {
				t.Errorf("%v, %v: want %s", plain(flagErr), plain(variableErr), want)
			}
		}
	}
	for given, allowed := range map[string]bool{"-1ns": false, "0": true, "0s": true, "5m": true, "5m0.000000001s": false, "10": false} {
		_, err := parse(t, nil, "--drain-timeout="+given)
		if err == nil != allowed {
			t.Errorf("DRAIN_TIMEOUT=%s: %v", given, err)
		}
	}
}

func TestValues(t *testing.T) {
	for args, allowed := range map[string]bool{
		"--loops=1e2":                  false,
		"--loops=0x10":                 false,
		"--loops=":                     false,
		"--loops":                      false,
		"--loops -1":                   false,
		"--log-level=warn":             true,
		"--log-level=WARN":             false,
		"--log-level=":                 false,
		"--log-format=json":            true,
		"--log-format=yaml":            false,
		"--allow-insecure":             true,
		"--allow-insecure=true":        true,
		"--allow-insecure=0":           true,
		"--allow-insecure=":            false,
		"--allow-insecure=perhaps":     false,
		"--listen-addr=[::1]:0":        true,
		"--listen-addr=:65535":         true,
		"--listen-addr=:65536":         false,
		"--listen-addr=:-1":            false,
		"--listen-addr=:http":          false,
		"--listen-addr=127.0.0.1":      false,
		"--listen-addr=::1:7400":       false,
		"--listen-addr=":               false,
		"--admin-addr=":                true,
		"--admin-addr=nonsense":        false,
		"--loops=1 --loops=2":          true,
		"--max-key=1":                  false,
		"--max-keys=1 more":            false,
		"--auth-secret=x --max-keys=5": true,
	} {
		if _, err := parse(t, nil, strings.Fields(args)...); err == nil != allowed {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestAFlagWins(t *testing.T) {
	environ := []string{"MAX_KEYS=5", "ALLOW_INSECURE=true", "ADMIN_ADDR=", "LOOPS=none"}
	c, err := parse(t, environ, "--max-keys=6", "--loops=3")
	if err != nil {
		t.Fatal(err)
	}
	if c.MaxKeys != 6 || c.Loops != 3 || !c.AllowInsecure || c.AdminAddr != "" {
		t.Errorf("%+v", c)
	}
	if c, err = parse(t, environ[:3], "--allow-insecure=false"); err != nil || c.AllowInsecure || c.MaxKeys != 5 {
		t.Errorf("%+v %v", c, err)
	}
}

// The test process's own environment must not leak into what is parsed.
func TestOnlyTheGivenEnvironmentCounts(t *testing.T) {
	t.Setenv("MAX_KEYS", "nonsense")
	if _, err := parse(t, nil); err != nil {
		t.Error(err)
	}
}

func TestEverySettingIsDescribed(t *testing.T) {
	for _, flag := range serveFlags(t) {
		if flag.Help == "" || flag.Tag.Get("range") == "" || len(flag.Envs) != 1 {
			t.Errorf("--%s: help %q, range %q, variables %v", flag.Name, flag.Help, flag.Tag.Get("range"), flag.Envs)
		}
		if want := strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_")); len(flag.Envs) == 1 && flag.Envs[0] != want {
			t.Errorf("--%s has the variable %s, want %s", flag.Name, flag.Envs[0], want)
		}
	}
}

func TestUnknownVariables(t *testing.T) {
	for name, allowed := range map[string]bool{
		"TICKETING_ADDR": true, "TICKETING_KEY": true, "TICKETING_TOKEN": true,
		"TICKETING_MAX_KEYS": false, "TICKETING_": false, "TICKETING_PORTS": false, "TICKETING_SERVICE_HOSTS": false,
		// What Kubernetes sets beside Services named ticketing and ticketing-admin.
		"TICKETING_SERVICE_HOST": true, "TICKETING_SERVICE_PORT": true, "TICKETING_SERVICE_PORT_CLIENT": true,
		"TICKETING_PORT": true, "TICKETING_PORT_7400_TCP": true, "TICKETING_PORT_7400_TCP_ADDR": true,
		"TICKETING_ADMIN_SERVICE_HOST": true, "TICKETING_ADMIN_PORT_7401_TCP_PROTO": true,
		"OTHER_MAX_KEYS": true, "TICKETINGX": true,
	} {
		if err := checkVariables([]string{"PATH=/bin", name + "=x"}); err == nil != allowed {
			t.Errorf("%s: %v", name, err)
		}
	}
}
